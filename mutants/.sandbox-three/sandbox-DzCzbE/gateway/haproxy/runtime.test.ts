/** The client of the runtime API against servers that misbehave; how it does with HAProxy itself, index.test.ts shows. */
// @ts-nocheck


import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, onTestFinished, test } from 'vitest'
import { connectRuntime, type RuntimeConnection } from './runtime.ts'

const limits = { answerMs: 200, answerBytes: 64 * 1024 }

/** A server on a socket of its own that does `onLine` with each line it reads. */
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

/** Greets as HAProxy does, and does `onCommand` with what follows. */
const greeting = (onCommand: (line: string, socket: Socket) => void) =>
  serve((line, socket) => {
    if (line === 'prompt') socket.write('\n> ')
    else onCommand(line, socket)
  })

test('gives each command its answer, in order, however the bytes are cut', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 30 }), async cuts => {
      let pending = ''
      const path = await greeting((line, socket) => {
        pending += `${line === 'empty' ? '' : `${line} said\n`}\n> `
        if (line !== 'last') return
        for (let index = 0; pending !== ''; index++) {
          const length = cuts[index % cuts.length] ?? 1
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

test('drops what HAProxy prompts for the lines of a payload', async () => {
  const path = await greeting((line, socket) => socket.write(line === '' ? '\n> ' : '+ '))
  const connection = await connected(path)
  expect(await connection.command('add map @1 x <<\nkey value\n')).toEqual({ kind: 'answer', text: '' })
})

describe('is lost, with every command under way and every later one,', () => {
  const cases: [string, string, (line: string, socket: Socket) => void][] = [
    ['where nothing is answered in time', 'no answer in time', () => {}],
    [
      'where bytes trickle in without an end',
      'no answer in time',
      (_line, socket) => {
        const timer = setInterval(() => socket.write('x'), 20)
        socket.on('close', () => clearInterval(timer))
      },
    ],
    ['where the other side closes', 'closed by HAProxy', (_line, socket) => socket.end()],
    [
      'where an answer does not end',
      'an answer of more than 65536 bytes',
      (_line, socket) => socket.write('x'.repeat(200_000)),
    ],
    [
      'where more is answered than was asked',
      'an answer to no command',
      (_line, socket) => socket.write('\n> \n> \n> \n> '),
    ],
  ]
  test.each(cases)('%s', async (_name, reason, onCommand) => {
    const connection = await connected(await greeting(onCommand))
    const [, second] = await Promise.all([connection.command('one'), connection.command('two')])
    if (reason !== 'an answer to no command') expect(second).toEqual({ kind: 'lost', reason })
    expect(await connection.over).toBe(reason)
    expect(await connection.command('three')).toEqual({ kind: 'lost', reason })
  })
})

test.each<[string, (line: string, socket: Socket) => void, RegExp]>([
  ['says something else', (_line, socket) => socket.write('HTTP/1.1 400 Bad Request\r\n\n> '), /does not speak/],
  ['says nothing', () => {}, /no answer in time/],
  ['closes', (_line, socket) => socket.destroy(), /closed|ECONNRESET|EPIPE/],
])('a server that %s is no HAProxy', async (_name, onLine, reason) => {
  expect(await connectRuntime(await serve(onLine), limits)).toEqual({
    kind: 'lost',
    reason: expect.stringMatching(reason),
  })
})

test('where there is no socket it says so', async () => {
  expect(await connectRuntime(join(tmpdir(), 'espalier-no-such-socket'), limits)).toEqual({
    kind: 'lost',
    reason: 'ENOENT',
  })
})
