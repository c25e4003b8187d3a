! Arguments by address, as Fortran passes them. Rank 0 waits for a message, rank 1 for a broadcast; what they ask for
! nobody can know beforehand: from the number of the program's arguments, which is 1.
program fortran
    implicit none
    include 'mpif.h'
    integer :: rank, seed, error
    integer :: cells(100)

    call mpi_init(error)
    call mpi_comm_rank(mpi_comm_world, rank, error)
    seed = command_argument_count()
    call ready(rank)
    if (rank == 0) then
        call receive(12 * seed, seed, 42 * seed)
    else
        call mpi_bcast(cells, 12 * seed, mpi_integer, seed - 1, mpi_comm_world, error)
    end if
    call mpi_finalize(error)

contains

    subroutine receive(count, source, tag)
        integer, intent(in) :: count, source, tag
        integer :: status(mpi_status_size)
        call mpi_recv(cells, count, mpi_integer, source, tag, mpi_comm_world, status, error)
    end subroutine

    subroutine ready(rank)
        integer, intent(in) :: rank
        character(len=4096) :: directory, name
        integer :: file
        call alarm(120, stop_it)
        call get_command_argument(1, directory)
        write (name, '("/truth.", i0, ".1.json")') rank
        open (newunit=file, file=trim(directory)//'/draft'//trim(name(2:)), action='write')
        write (file, '("{""pid"": ", i0, "}")') getpid()
        close (file)
        call rename(trim(directory)//'/draft'//trim(name(2:)), trim(directory)//trim(name))
    end subroutine

    subroutine stop_it()
        stop 1
    end subroutine
end program
