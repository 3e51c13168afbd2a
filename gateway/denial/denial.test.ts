import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { connect as connectTls, type TLSSocket } from 'node:tls'
import fc from 'fast-check'
import { describe, expect, onTestFinished, test } from 'vitest'
import { testCertificate } from '../testing/certificate.ts'
import { cancelRequest, errorFields, gssRequest, packet, startupMessage, tlsRequest } from '../testing/client.ts'
import { listen, received, until } from '../testing/sockets.ts'
import { createDenialAgent, type DenialLimits } from './denial.ts'
import { notAdmitted } from './refusal.ts'

const certificate = testCertificate('gateway.test')

const refusal = notAdmitted('shop-12345678', '127.0.0.1')
const told = {
  S: 'FATAL',
  V: 'FATAL',
  C: '28000',
  M: 'no rule of the allowlist of shop-12345678 admits 127.0.0.1',
  H: expect.stringContaining('allowlist'),
}

const generous: Partial<DenialLimits> = {
  perAddress: { perSecond: 1e6, burst: 1e6 },
  total: { perSecond: 1e6, burst: 1e6 },
}

/** A server that refuses everyone; `dial` connects to it. */
async function refusing(limits: Partial<DenialLimits> = generous) {
  const agent = createDenialAgent({ certificate, limits, now: Date.now })
  const answers: boolean[] = []
  const { server, port } = await listen('127.0.0.1', socket => {
    answers.push(agent.refuse(socket, socket.remoteAddress ?? '', refusal))
  })
  const sockets: Socket[] = []
  onTestFinished(() => {
    agent.close()
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const dial = async (): Promise<Socket> => {
    const socket = connect({ port, host: '127.0.0.1' })
    sockets.push(socket.on('error', () => {}))
    await once(socket, 'connect')
    return socket
  }
  return { agent, dial, answers }
}

/** Waits for exactly so many bytes. */
async function take(socket: Socket, length: number): Promise<string> {
  for (;;) {
    const bytes: Buffer | null = socket.read(length)
    if (bytes !== null) return bytes.toString('latin1')
    await once(socket, 'readable')
  }
}

async function startTls(socket: Socket, ALPNProtocols?: string[]): Promise<TLSSocket> {
  const secured = connectTls({ socket, rejectUnauthorized: false, ...(ALPNProtocols ? { ALPNProtocols } : {}) })
  await once(secured, 'secureConnect')
  return secured
}

/** Above a bound, without TLS. */
const toldInPlain = {
  S: 'FATAL',
  V: 'FATAL',
  C: '53300',
  M: 'too many connections are being refused at the moment',
  H: 'Try again in a few seconds. A client that connects more slowly is told why it is refused.',
}

describe('a refused client is told why', () => {
  test.each([0, 2])('in plain, by protocol 3.%i', async minor => {
    const { dial } = await refusing()
    const socket = await dial()
    socket.write(startupMessage(minor))
    expect(errorFields(await received(socket))).toEqual(told)
  })

  test('after SSLRequest, inside TLS, by the gateway’s own certificate', async () => {
    const { dial } = await refusing()
    const socket = await dial()
    socket.write(tlsRequest)
    expect(await take(socket, 1)).toBe('S')
    const secured = await startTls(socket)
    expect(secured.getPeerCertificate().subject.CN).toBe('gateway.test')
    secured.write(startupMessage())
    expect(errorFields(await received(secured))).toEqual(told)
  })

  test('after GSSENCRequest and SSLRequest', async () => {
    const { dial } = await refusing()
    const socket = await dial()
    socket.write(gssRequest)
    expect(await take(socket, 1)).toBe('N')
    socket.write(tlsRequest)
    expect(await take(socket, 1)).toBe('S')
    const secured = await startTls(socket)
    secured.write(startupMessage())
    expect(errorFields(await received(secured))).toEqual(told)
  })

  test('after GSSENCRequest, in plain', async () => {
    const { dial } = await refusing()
    const socket = await dial()
    socket.write(gssRequest)
    expect(await take(socket, 1)).toBe('N')
    socket.write(startupMessage())
    expect(errorFields(await received(socket))).toEqual(told)
  })

  test('by direct TLS', async () => {
    const { dial } = await refusing()
    const secured = await startTls(await dial(), ['postgresql'])
    expect(secured.alpnProtocol).toBe('postgresql')
    secured.write(startupMessage())
    expect(errorFields(await received(secured))).toEqual(told)
  })

  test('byte by byte', async () => {
    const { dial } = await refusing()
    const socket = await dial()
    socket.setNoDelay()
    const answer = received(socket)
    for (const byte of startupMessage()) {
      socket.write(Buffer.from([byte]))
      await new Promise(resolve => setImmediate(resolve))
    }
    expect(errorFields(await answer)).toEqual(told)
  })

  test('even where it goes on talking', async () => {
    const { dial } = await refusing()
    const socket = await dial()
    socket.write(Buffer.concat([startupMessage(), Buffer.alloc(200_000, 'x')]))
    expect(errorFields(await received(socket))).toEqual(told)
  })
})

describe('closed without a word:', () => {
  test.each<[string, Buffer]>([
    ['a CancelRequest', cancelRequest],
    ['HTTP', Buffer.from('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n')],
    ['protocol 2', packet(2 * 65536, Buffer.from('user\0\0'))],
    ['data behind an SSLRequest', Buffer.concat([tlsRequest, startupMessage()])],
    ['data behind a GSSENCRequest', Buffer.concat([gssRequest, startupMessage()])],
    ['a broken ClientHello', Buffer.from([0x16, 3, 1, 0, 5, 9, 9, 9, 9, 9])],
  ])('%s', async (_name, bytes) => {
    const { dial, agent } = await refusing()
    const socket = await dial()
    socket.write(bytes)
    const answer = await received(socket)
    // OpenSSL answers a broken handshake by an alert (record type 21) of its own.
    if (answer[0] !== 0x15) expect(answer.length).toBe(0)
    await until('the conversation is over', () => agent.active() === 0)
  })

  test.each<[string, Buffer, string]>([
    ['a second GSSENCRequest', gssRequest, 'N'],
    ['a CancelRequest after one', cancelRequest, 'N'],
  ])('%s', async (_name, bytes, first) => {
    const { dial } = await refusing()
    const socket = await dial()
    socket.write(gssRequest)
    expect(await take(socket, 1)).toBe(first)
    socket.write(bytes)
    expect((await received(socket)).length).toBe(0)
  })

  test.each<[string, Buffer]>([
    ['an SSLRequest inside TLS', tlsRequest],
    ['a GSSENCRequest inside TLS', gssRequest],
    ['a CancelRequest inside TLS', cancelRequest],
    ['TLS inside TLS', Buffer.from([0x16, 3, 1, 0, 5])],
  ])('%s', async (_name, bytes) => {
    const { dial } = await refusing()
    const secured = await startTls(await dial(), ['postgresql'])
    secured.write(bytes)
    expect((await received(secured)).length).toBe(0)
  })

  test('direct TLS without the name of the protocol', async () => {
    const { dial } = await refusing()
    const secured = await startTls(await dial())
    secured.write(startupMessage())
    expect((await received(secured)).length).toBe(0)
  })

  test('direct TLS with the name of another protocol', async () => {
    const { dial } = await refusing()
    await expect(startTls(await dial(), ['h2'])).rejects.toThrow()
  })
})

describe('bounds', () => {
  test.each<[string, Buffer]>([
    ['says nothing', Buffer.alloc(0)],
    ['stops in its header', startupMessage().subarray(0, 6)],
    ['stops in its StartupMessage', startupMessage().subarray(0, 20)],
    ['stops in TLS', Buffer.from([0x16, 0x03, 0x01, 0x01, 0x00, 0x01])],
  ])('a client that %s is closed in time', async (_name, bytes) => {
    const { dial, agent } = await refusing({ ...generous, conversationMs: 100 })
    const socket = await dial()
    socket.write(bytes)
    expect((await received(socket)).length).toBe(0)
    await until('the conversation is over', () => agent.active() === 0)
  })

  test('one that never closes after its answer is closed in time', async () => {
    const { dial, agent } = await refusing({ ...generous, lingerMs: 100 })
    const socket = await dial()
    socket.allowHalfOpen = true
    socket.write(startupMessage())
    expect(errorFields(await received(socket))).toEqual(told)
    await until('the conversation is over', () => agent.active() === 0)
  })

  test('conversations at once', async () => {
    const { dial, agent, answers } = await refusing({ ...generous, concurrent: 2 })
    await Promise.all([dial(), dial()])
    await until('both converse', () => agent.active() === 2)
    expect(errorFields(await received(await dial()))).toEqual(toldInPlain)
    expect(answers).toEqual([true, true, false])
  })

  test.each<[string, Partial<DenialLimits>]>([
    ['by address', { ...generous, perAddress: { perSecond: 0, burst: 2 } }],
    ['in all', { ...generous, total: { perSecond: 0, burst: 2 } }],
  ])('conversations a second, %s', async (_name, limits) => {
    const { dial, answers } = await refusing(limits)
    for (const expected of [told, told, toldInPlain]) {
      const socket = await dial()
      socket.write(startupMessage())
      expect(errorFields(await received(socket))).toEqual(expected)
    }
    expect(answers).toEqual([true, true, false])
  })

  test('plain answers above the bounds', async () => {
    const { dial } = await refusing({ ...generous, concurrent: 0, plainConcurrent: 1, lingerMs: 60_000 })
    const first = await dial()
    first.allowHalfOpen = true
    expect(errorFields(await received(first))).toEqual(toldInPlain)
    expect((await received(await dial())).length).toBe(0)
  })

  test('a certificate that is none is refused at the start', () => {
    expect(() => createDenialAgent({ certificate: { cert: 'x', key: 'y' }, now: Date.now })).toThrow()
  })
})

test('random bytes in random pieces: every conversation ends, and the agent still answers', async () => {
  const { dial, agent } = await refusing({ ...generous, conversationMs: 200, concurrent: 1000 })
  const opening = fc.constantFrom(
    Buffer.alloc(0),
    tlsRequest,
    gssRequest,
    Buffer.from([0x16, 3, 1]),
    startupMessage().subarray(0, 12),
  )
  await fc.assert(
    fc.asyncProperty(opening, fc.array(fc.uint8Array({ maxLength: 300 }), { maxLength: 6 }), async (first, pieces) => {
      const socket = await dial()
      const over = received(socket)
      for (const piece of [first, ...pieces]) {
        if (!socket.destroyed) socket.write(piece)
        await new Promise(resolve => setImmediate(resolve))
      }
      socket.end()
      await over
    }),
    { numRuns: 200 },
  )
  await until('every conversation is over', () => agent.active() === 0)
  const socket = await dial()
  socket.write(startupMessage())
  expect(errorFields(await received(socket))).toEqual(told)
})
