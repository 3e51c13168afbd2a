import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { LoginProgress } from './login-progress.ts'
import { gssRequest, startupMessage, tlsRequest } from './testing/client.ts'

type Flight = { who: 'client' | 'target'; bytes: Buffer }
const client = (...bytes: Buffer[]): Flight => ({ who: 'client', bytes: Buffer.concat(bytes) })
const target = (...bytes: Buffer[]): Flight => ({ who: 'target', bytes: Buffer.concat(bytes) })

const record = (type: number, body: Buffer): Buffer => {
  const head = Buffer.of(type, 3, 3, 0, 0)
  head.writeUInt16BE(body.length, 3)
  return Buffer.concat([head, body])
}
const handshake = (length: number) => record(0x16, Buffer.alloc(length, 1))
const data = (length: number) => record(0x17, Buffer.alloc(length, 0x17))
const changeCipher = record(0x14, Buffer.of(1))
const hello = (cipher: number) =>
  record(0x16, Buffer.concat([Buffer.alloc(38, 2), Buffer.of(32), Buffer.alloc(32), Buffer.of(cipher, 1, 0, 0)]))
const keyUpdate = data(22)

const requests = {
  SSLRequest: [client(tlsRequest), target(Buffer.from('S'))],
  'GSSENCRequest and SSLRequest': [
    client(gssRequest),
    target(Buffer.from('N')),
    client(tlsRequest),
    target(Buffer.from('S')),
  ],
  'direct TLS': [],
}
const handshakes = {
  'TLS 1.3': [client(handshake(300)), target(hello(0x13), changeCipher, data(27), data(500), data(52))],
  'TLS 1.3 negotiated anew': [
    client(handshake(300)),
    target(hello(0x13), changeCipher),
    client(changeCipher, handshake(300)),
    target(hello(0x13), data(27), data(500), data(52)),
  ],
  'TLS 1.3 with data before its time': [
    client(handshake(300), data(100)),
    target(hello(0x13), changeCipher, data(27), data(500), data(52)),
  ],
  'TLS 1.2': [
    client(handshake(300)),
    target(hello(0xc0), handshake(500)),
    client(handshake(70), changeCipher, handshake(40)),
    target(changeCipher, handshake(40)),
  ],
}
/** The messages of both sides for SCRAM, without the last answer of the target. */
const exchanged = [client(changeCipher, data(52), data(60)), target(data(70)), client(data(80)), target(data(90))]
const loginEnd = [client(data(100)), target(data(60), data(300))]

/** Sends the messages in pieces of any length. */
function progressAfter(flights: readonly Flight[], lengths: readonly number[]): LoginProgress {
  const progress = new LoginProgress()
  let piece = 0
  for (const { who, bytes } of flights) {
    for (let at = 0; at < bytes.length; ) {
      const length = lengths[piece++ % lengths.length] ?? bytes.length
      progress[who](bytes.subarray(at, at + length))
      at += length
    }
  }
  return progress
}
const chunkLengths = fc.array(fc.integer({ min: 1, max: 600 }), { minLength: 1, maxLength: 20 })
const pick = <T>(of: Record<string, T>) => fc.constantFrom(...Object.values(of))

describe('a login', () => {
  test('is complete with the third answer and not earlier, for any split and any earlier data', () => {
    fc.assert(
      fc.property(pick(requests), pick(handshakes), chunkLengths, (before, secured, lengths) => {
        expect(progressAfter([...before, ...secured, ...exchanged], lengths).isOver).toBe(false)
        expect(progressAfter([...before, ...secured, ...exchanged, ...loginEnd], lengths).isOver).toBe(true)
      }),
      { numRuns: 1_000 },
    )
  })

  test('makes no progress with new keys, alerts, or unexpected data', () => {
    const noise = [
      client(keyUpdate),
      target(keyUpdate),
      client(data(500)),
      client(data(1)),
      target(record(0x15, data(2))),
    ]
    const flights = [...requests.SSLRequest, ...handshakes['TLS 1.3'], ...exchanged]
    expect(progressAfter([...flights, ...noise, ...noise, ...noise], [1_000]).isOver).toBe(false)
  })

  test('without TLS is never reported as complete', () => {
    const flights = [client(startupMessage()), target(Buffer.from('R')), client(data(10)), target(data(100))]
    expect(progressAfter([...flights, ...exchanged, ...loginEnd], [7]).isOver).toBe(false)
  })

  test('accepts any bytes', () => {
    const flight = fc.record({
      who: fc.constantFrom('client' as const, 'target' as const),
      bytes: fc.uint8Array({ maxLength: 300 }),
    })
    fc.assert(
      fc.property(fc.array(flight, { maxLength: 20 }), flights => {
        progressAfter(
          flights.map(({ who, bytes }) => ({ who, bytes: Buffer.from(bytes) })),
          [50],
        )
      }),
    )
  })
})
