/* Memory that holds what an endpoint of libfabric's provider cxi would, receives, sends and messages: there is no NIC,
 * and no libfabric. Where each member lies, the test says: -Dcxip_req__context=88, from the layouts that it tests.
 * fi_version answers -DRELEASE=(major << 16 | minor).
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { DOMAIN = 2, ENDPOINT = 3, TABLE = 11, COMPLETIONS = 14 };    /* classes of objects */
enum { SOFTWARE = 3, PROTOCOL = 24, PID_BITS = 9 };
enum { OVERFLOW_BUFFER = 2, RECEIVE = 3, SEND = 4, SEARCH = 6 };    /* types of requests */
enum { ROOM = 1 << 14, LEAST = 512, PEERS = 3, RECEIVES = 6, MESSAGES = 4, SENDS = 4 };

#define TAGGED (1ull << 60)
#define HAS_DATA (1ull << 59)
#define REMOTE_CQ_DATA (1ull << 17)
#define PEEK (1ull << 19)
#define INJECT (1ull << 25)

typedef unsigned char bytes;

/* Names that the test finds. */
bytes domain[LEAST], endpoint[LEAST], table[LEAST], receives[ROOM], sends[ROOM], object[LEAST], completions[2][LEAST];
bytes peers[PEERS][LEAST], incoming[RECEIVES][LEAST], outgoing[SENDS][LEAST], messages[MESSAGES][LEAST];
char buffer[4096];

unsigned fi_version(void)
{
    return RELEASE;
}

static void put(bytes *at, uint64_t value, int size)
{
    memcpy(at, &value, (size_t)size);
}

static void point(bytes *at, const void *to)
{
    put(at, (uintptr_t)to, 8);
}

/* Begin an object of libfabric's: its class, its context, and its functions, which lie near by. */
static void identify(bytes *at, uint64_t kind)
{
    put(at, kind, 8);
    point(at + 16, domain);
}

static void begin_list(bytes *head)
{
    point(head, head);
    point(head + 8, head);
}

static void append(bytes *head, bytes *link)
{
    bytes *last;
    memcpy(&last, head + 8, 8);
    point(link, head);
    point(link + 8, last);
    point(last, link);
    point(head + 8, link);
}

/* Return the number by which a receive or a message names a process: the 9 bits of its endpoint above its NIC's. */
static uint32_t match_id(int peer)
{
    return (uint32_t)(0x10 + peer) << (32 - PID_BITS) | (uint32_t)(0x200 + peer);
}

static void add_peer(int peer)
{
    bytes *entry = peers[peer];
    if (peer) {
        point(entry + cxip_av_entry__hh_prev, peers[peer - 1]);
        point(peers[peer - 1] + cxip_av_entry__hh_next, entry);
    }
    put(entry + cxip_av_entry__addr, (uint32_t)(0x10 + peer) | (uint32_t)(0x200 + peer) << 9, 4);
    put(entry + cxip_av_entry__fi_addr, (uint64_t)peer, 8);
}

static bytes *add_request(bytes *request, bytes *events, int type, uint64_t context)
{
    append(events + cxip_evtq__req_list, request + cxip_req__evtq_entry);
    point(request + cxip_req__evtq, events);
    put(request + cxip_req__type, (uint64_t)type, 4);
    put(request + cxip_req__context, context, 8);
    return request;
}

static bytes *add_receive(int number, uint64_t tag, uint64_t ignore, uint32_t from, uint64_t flags)
{
    bytes *events = receives + cxip_rxc__rx_evtq;
    bytes *part = add_request(incoming[number], events, RECEIVE, 0x1000u + (unsigned)number) + cxip_req__recv;
    point(part + cxip_req_recv__rxc, receives);
    point(part + cxip_req_recv__recv_buf, buffer + 100 * number);
    put(part + cxip_req_recv__ulen, 100, 4);
    put(part + cxip_req_recv__tagged, 1, 1);
    put(part + cxip_req_recv__tag, tag, 8);
    put(part + cxip_req_recv__ignore, ignore, 8);
    put(part + cxip_req_recv__match_id, from, 4);
    put(part + cxip_req_recv__flags, flags, 8);
    return part;
}

static bytes *add_send(int number, uint64_t tag, uint64_t to, uint64_t length, uint64_t flags)
{
    bytes *events = sends + cxip_txc__tx_evtq;
    bytes *part = add_request(outgoing[number], events, SEND, 0x2000u + (unsigned)number) + cxip_req__send;
    point(part + cxip_req_send__txc, sends);
    point(part + cxip_req_send__buf, buffer);
    put(part + cxip_req_send__len, length, 8);
    put(part + cxip_req_send__dest_addr, to, 8);
    put(part + cxip_req_send__tagged, 1, 1);
    put(part + cxip_req_send__tag, tag, 8);
    put(part + cxip_req_send__data, 7, 8);
    put(part + cxip_req_send__flags, flags, 8);
    return part;
}

static bytes *add_message(int number, uint64_t bits, int from, uint32_t length, uint32_t here, int is_rendezvous)
{
    bytes *event = messages[number] + cxip_ux_send__put_ev;
    append(receives + cxip_rxc_hpc__sw_ux_list, messages[number] + cxip_ux_send__rxc_entry);
    put(event + c_event_target_long__header_data, (uint64_t)from, 8);
    put(event + c_event_target_long__initiator, match_id(from), 4);
    put(event + c_event_target_long__event_size, 3, 1);             /* of a message that came: type 0 */
    put(event + c_event_target_long__ptl_list, is_rendezvous ? 6 : 2, 1);
    put(event + c_event_target_long__match_bits, bits, 8);
    put(event + c_event_target_long__mlength, here, 4);
    put(event + c_event_target_long__rlength, length, 4);
    return event;
}

static void make_endpoint(void)
{
    identify(domain, DOMAIN);
    identify(endpoint, ENDPOINT);
    identify(table, TABLE);
    identify(completions[0], COMPLETIONS);
    identify(completions[1], COMPLETIONS);
    point(endpoint + cxip_ep__ep_obj, object);
    point(object + cxip_ep_obj__domain, domain);
    point(object + cxip_ep_obj__av, table);
    put(object + cxip_ep_obj__protocol, PROTOCOL, 4);
    point(object + cxip_ep_obj__txc, sends);
    point(object + cxip_ep_obj__rxc, receives);
    put(receives + cxip_rxc__protocol, PROTOCOL, 4);
    put(receives + cxip_rxc__pid_bits, PID_BITS, 1);
    put(receives + cxip_rxc__state, SOFTWARE, 4);
    point(receives + cxip_rxc__ep_obj, object);
    point(receives + cxip_rxc__recv_cq, completions[0]);
    point(receives + cxip_rxc__domain, domain);
    point(receives + cxip_rxc__rx_evtq + cxip_evtq__cq, completions[0]);
    begin_list(receives + cxip_rxc__rx_evtq + cxip_evtq__req_list);
    begin_list(receives + cxip_rxc_hpc__fc_drops);
    begin_list(receives + cxip_rxc_hpc__replay_queue);
    begin_list(receives + cxip_rxc_hpc__sw_ux_list);
    begin_list(receives + cxip_rxc_hpc__sw_pending_ux_list);
    put(sends + cxip_txc__protocol, PROTOCOL, 4);
    point(sends + cxip_txc__send_cq, completions[1]);
    point(sends + cxip_txc__ep_obj, object);
    point(sends + cxip_txc__tx_evtq + cxip_evtq__cq, completions[1]);
    begin_list(sends + cxip_txc__tx_evtq + cxip_evtq__req_list);
    point(table + cxip_av__av_entry_hash, peers[0]);
    put(table + cxip_av__av_entry_cnt, PEERS, 4);
}

int main(void)
{
    make_endpoint();
    for (int peer = 0; peer < PEERS; peer++)
        add_peer(peer);
    add_request(incoming[0], receives + cxip_rxc__rx_evtq, SEARCH, 0);
    add_receive(1, 11, 0xFF0000, UINT32_MAX, 0);
    add_receive(2, 12, 0, match_id(2), 0);
    put(add_receive(3, 13, 0, UINT32_MAX, 0) + cxip_req_recv__tagged, 0, 1);
    put(add_receive(4, 14, 0, UINT32_MAX, 0) + cxip_req_recv__rc, 1, 4);    /* its message is here */
    add_receive(5, 15, 0, UINT32_MAX, PEEK);
    add_send(0, 21, 2, 1 << 20, REMOTE_CQ_DATA);
    add_send(1, 22, 1, 3000, 0);
    put(add_send(2, 23, 1, 10, 0) + cxip_req_send__tagged, 0, 1);
    add_send(3, 24, 1, 10, INJECT);
    add_message(0, 31 | TAGGED | HAS_DATA, 1, 80, 80, 0);
    add_message(1, 32 | TAGGED, 2, 1 << 20, 2048, 1);
    add_message(2, 33, 2, 5, 5, 0);                                 /* without a tag */
    add_message(3, 34 | TAGGED, 0, 0, 0, 0);
    put(messages[3] + cxip_ux_send__claimed, 1, 1);
    puts("ready");
    fflush(stdout);
    pause();
    return 0;
}
