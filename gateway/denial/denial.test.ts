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
const expectedFields = {
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

/** A server that refuses every client. `dial` connects to it. */
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

/** Waits for exactly this many bytes. */
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

/** The expected response above a limit, without TLS. */
const expectedInPlain = {
  S: 'FATAL',
  V: 'FATAL',
  C: '53300',
  M: 'too many connections are being refused now',
  H: 'Retry in a few seconds. A client that connects more slowly gets the reason of its refusal.',
}

describe('a refused client gets the reason', () => {
  test.each([0, 2])('in plain text, with protocol 3.%i', async minor => {
    const { dial } = await refusing()
    const socket = await dial()
    socket.write(startupMessage(minor))
    expect(errorFields(await received(socket))).toEqual(expectedFields)
  })

  test('after SSLRequest, inside TLS, with the gateway’s own certificate', async () => {
    const { dial } = await refusing()
    const socket = await dial()
    socket.write(tlsRequest)
    expect(await take(socket, 1)).toBe('S')
    const secured = await startTls(socket)
    expect(secured.getPeerCertificate().subject.CN).toBe('gateway.test')
    secured.write(startupMessage())
    expect(errorFields(await received(secured))).toEqual(expectedFields)
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
    expect(errorFields(await received(secured))).toEqual(expectedFields)
  })

  test('after GSSENCRequest, in plain text', async () => {
    const { dial } = await refusing()
    const socket = await dial()
    socket.write(gssRequest)
    expect(await take(socket, 1)).toBe('N')
    socket.write(startupMessage())
    expect(errorFields(await received(socket))).toEqual(expectedFields)
  })

  test('with direct TLS', async () => {
    const { dial } = await refusing()
    const secured = await startTls(await dial(), ['postgresql'])
    expect(secured.alpnProtocol).toBe('postgresql')
    secured.write(startupMessage())
    expect(errorFields(await received(secured))).toEqual(expectedFields)
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
    expect(errorFields(await answer)).toEqual(expectedFields)
  })

  test('even if it keeps sending', async () => {
    const { dial } = await refusing()
    const socket = await dial()
    socket.write(Buffer.concat([startupMessage(), Buffer.alloc(200_000, 'x')]))
    expect(errorFields(await received(socket))).toEqual(expectedFields)
  })
})

describe('closed without a response:', () => {
  test.each<[string, Buffer]>([
    ['a CancelRequest', cancelRequest],
    ['HTTP', Buffer.from('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n')],
    ['protocol 2', packet(2 * 65536, Buffer.from('user\0\0'))],
    ['data after an SSLRequest', Buffer.concat([tlsRequest, startupMessage()])],
    ['data after a GSSENCRequest', Buffer.concat([gssRequest, startupMessage()])],
    ['a broken ClientHello', Buffer.from([0x16, 3, 1, 0, 5, 9, 9, 9, 9, 9])],
  ])('%s', async (_name, bytes) => {
    const { dial, agent } = await refusing()
    const socket = await dial()
    socket.write(bytes)
    const answer = await received(socket)
    // OpenSSL itself answers a broken handshake with an alert (record type 21).
    if (answer[0] !== 0x15) expect(answer.length).toBe(0)
    await until('the conversation is over', () => agent.active() === 0)
  })

  test.each<[string, Buffer, string]>([
    ['a second GSSENCRequest', gssRequest, 'N'],
    ['a CancelRequest after a GSSENCRequest', cancelRequest, 'N'],
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

describe('limits', () => {
  test.each<[string, Buffer]>([
    ['sends nothing', Buffer.alloc(0)],
    ['stops within the header', startupMessage().subarray(0, 6)],
    ['stops within its StartupMessage', startupMessage().subarray(0, 20)],
    ['stops within its ClientHello', Buffer.from([0x16, 0x03, 0x01, 0x01, 0x00, 0x01])],
  ])('a client that %s is closed in time', async (_name, bytes) => {
    const { dial, agent } = await refusing({ ...generous, conversationMs: 100 })
    const socket = await dial()
    socket.write(bytes)
    expect((await received(socket)).length).toBe(0)
    await until('the conversation is over', () => agent.active() === 0)
  })

  test('a client that never closes after the response is disconnected in time', async () => {
    const { dial, agent } = await refusing({ ...generous, closeDelayMs: 100 })
    const socket = await dial()
    socket.allowHalfOpen = true
    socket.write(startupMessage())
    expect(errorFields(await received(socket))).toEqual(expectedFields)
    await until('the conversation is over', () => agent.active() === 0)
  })

  test('concurrent conversations are limited', async () => {
    const { dial, agent, answers } = await refusing({ ...generous, concurrent: 2 })
    await Promise.all([dial(), dial()])
    await until('two conversations run', () => agent.active() === 2)
    expect(errorFields(await received(await dial()))).toEqual(expectedInPlain)
    expect(answers).toEqual([true, true, false])
  })

  test.each<[string, Partial<DenialLimits>]>([
    ['for one address', { ...generous, perAddress: { perSecond: 0, burst: 2 } }],
    ['for all addresses', { ...generous, total: { perSecond: 0, burst: 2 } }],
  ])('conversations per second, %s', async (_name, limits) => {
    const { dial, answers } = await refusing(limits)
    for (const expected of [expectedFields, expectedFields, expectedInPlain]) {
      const socket = await dial()
      socket.write(startupMessage())
      expect(errorFields(await received(socket))).toEqual(expected)
    }
    expect(answers).toEqual([true, true, false])
  })

  test('plain responses above the limits are limited too', async () => {
    const { dial } = await refusing({ ...generous, concurrent: 0, plainConcurrent: 1, closeDelayMs: 60_000 })
    const first = await dial()
    first.allowHalfOpen = true
    expect(errorFields(await received(first))).toEqual(expectedInPlain)
    expect((await received(await dial())).length).toBe(0)
  })

  test('an invalid certificate is refused at the start', () => {
    expect(() => createDenialAgent({ certificate: { cert: 'x', key: 'y' }, now: Date.now })).toThrow()
  })
})

test('random bytes in random pieces: every conversation ends, and the agent still responds', async () => {
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
  expect(errorFields(await received(socket))).toEqual(expectedFields)
})
