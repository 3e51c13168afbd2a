/** The client of the runtime API against misbehaving servers. index.test.ts tests it with HAProxy itself. */

import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, onTestFinished, test } from 'vitest'
import { connectRuntime, type RuntimeConnection } from './runtime.ts'

const limits = { answerMs: 200, answerBytes: 64 * 1024 }

/** A server on its own socket that calls `onLine` with each line that it reads. */
async function serve(onLine: (line: string, socket: Socket) => void): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'espalier-runtime-'))
  const path = join(directory, 'socket')
  const sockets: Socket[] = []
  const server = createServer(socket => {
    sockets.push(socket.on('error', () => {}))
    let rest = ''
    socket.setEncoding('utf8').on('data', (text: string) => {
      const lines = (rest + text).split('\n')
      rest = lines.pop() ?? ''
      for (const line of lines) onLine(line, socket)
    })
  }).listen(path)
  await once(server, 'listening')
  onTestFinished(async () => {
    for (const socket of sockets) socket.destroy()
    server.close()
    await rm(directory, { recursive: true })
  })
  return path
}

async function connected(path: string): Promise<RuntimeConnection> {
  const connection = await connectRuntime(path, limits)
  if ('kind' in connection) throw new Error(connection.reason)
  onTestFinished(() => connection.close())
  return connection
}

/** Sends a greeting as HAProxy does, and calls `onCommand` with each command. */
const greeting = (onCommand: (line: string, socket: Socket) => void) =>
  serve((line, socket) => {
    if (line === 'prompt') socket.write('\n> ')
    else onCommand(line, socket)
  })

test('the client matches each command with its answer, in order, for any split of the bytes', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 30 }), async lengths => {
      let pending = ''
      const path = await greeting((line, socket) => {
        pending += `${line === 'empty' ? '' : `${line} said\n`}\n> `
        if (line !== 'last') return
        for (let index = 0; pending !== ''; index++) {
          const length = lengths[index % lengths.length] ?? 1
          socket.write(pending.slice(0, length))
          pending = pending.slice(length)
        }
      })
      const connection = await connected(path)
      const answers = await Promise.all(['one', 'empty', 'two', 'last'].map(text => connection.command(text)))
      expect(answers.map(answer => (answer.kind === 'answer' ? answer.text : ''))).toEqual([
        'one said',
        '',
        'two said',
        'last said',
      ])
      connection.close()
    }),
    { numRuns: 30 },
  )
})

test("the client drops HAProxy's prompts for the lines of a payload", async () => {
  const path = await greeting((line, socket) => socket.write(line === '' ? '\n> ' : '+ '))
  const connection = await connected(path)
  expect(await connection.command('add map @1 x <<\nkey value\n')).toEqual({ kind: 'answer', text: '' })
})

describe('the client loses its connection, and every running and later command fails,', () => {
  const cases: [string, string, (line: string, socket: Socket) => void][] = [
    ['if no response arrives in time', `no answer within ${limits.answerMs} ms`, () => {}],
    [
      'if bytes arrive slowly without an end',
      `no answer within ${limits.answerMs} ms`,
      (_line, socket) => {
        const timer = setInterval(() => socket.write('x'), 20)
        socket.on('close', () => clearInterval(timer))
      },
    ],
    ['if HAProxy closes the connection', 'closed by HAProxy', (_line, socket) => socket.end()],
    [
      'if a response does not end',
      'an answer of more than 65536 bytes',
      (_line, socket) => socket.write('x'.repeat(200_000)),
    ],
    [
      'if more responses arrive than commands were sent',
      'an answer without a command',
      (_line, socket) => socket.write('\n> \n> \n> \n> '),
    ],
  ]
  test.each(cases)('%s', async (_name, reason, onCommand) => {
    const connection = await connected(await greeting(onCommand))
    const [, second] = await Promise.all([connection.command('one'), connection.command('two')])
    if (reason !== 'an answer without a command') expect(second).toEqual({ kind: 'lost', reason })
    expect(await connection.over).toBe(reason)
    expect(await connection.command('three')).toEqual({ kind: 'lost', reason })
  })
})

test.each<[string, (line: string, socket: Socket) => void, RegExp]>([
  [
    'sends an unexpected response',
    (_line, socket) => socket.write('HTTP/1.1 400 Bad Request\r\n\n> '),
    /does not behave/,
  ],
  ['sends no response', () => {}, /no answer within/],
  ['closes the connection', (_line, socket) => socket.destroy(), /closed|ECONNRESET|EPIPE/],
])('a server that %s is not HAProxy', async (_name, onLine, reason) => {
  expect(await connectRuntime(await serve(onLine), limits)).toEqual({
    kind: 'lost',
    reason: expect.stringMatching(reason),
  })
})

test('the client reports that the socket does not exist', async () => {
  expect(await connectRuntime(join(tmpdir(), 'espalier-no-such-socket'), limits)).toEqual({
    kind: 'lost',
    reason: 'ENOENT',
  })
})
