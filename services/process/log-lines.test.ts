/** Log lines: all lines of an event loop turn are one write, and no line is lost when the process ends. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { bufferedLines } from './log-lines.ts'

function recorded() {
  const written: string[] = []
  let exit = () => {}
  const lines = bufferedLines(
    { write: text => written.push(text), flushSync: () => written.push('flushed') },
    listener => {
      exit = listener
    },
  )
  return { written, lines, exit: () => exit() }
}

test('the lines of one turn are one write', async () => {
  const { written, lines } = recorded()
  for (const line of ['one\n', 'two\n']) lines.write(line)
  expect(written).toEqual([])
  await turn()
  lines.write('three\n')
  await turn()
  expect(written).toEqual(['one\ntwo\n', 'three\n'])
})

test('unwritten lines are written when the process ends', async () => {
  const { written, lines, exit } = recorded()
  lines.write('last\n')
  exit()
  await turn()
  expect(written).toEqual(['last\n', 'flushed'])
})

const program = `
  import { logLines } from ${JSON.stringify(new URL('log-lines.ts', import.meta.url).href)}
  const lines = logLines()
  const filler = 'x'.repeat(1_000)
  let number = 0
  const twenty = () => { for (let count = 0; count < 20; count++) lines.write(number++ + ' ' + filler + '\\n') }
  const turn = () => {
    twenty()
    if (number < 1_000) setImmediate(turn)
  }
  turn()
  process.stdin.on('end', () => {
    twenty()
    if (process.argv[1] === 'exit') process.exit(3)
    if (process.argv[1] === 'throw') throw 'thrown'
  }).resume()`

test.each([
  ['return', 0],
  ['exit', 3],
  ['throw', 1],
])('a process that ends by %s has written all lines in order, also to a slow reader', async (end, code) => {
  const child = spawn(process.execPath, ['--input-type=module', '-e', program, end], {
    stdio: ['pipe', 'ignore', 'pipe'],
  })
  const ended = once(child, 'exit')
  // A pipe buffers 64 KiB, so the process waits for this reader.
  await sleep(200)
  const numbers: number[] = []
  for await (const line of createInterface(child.stderr)) {
    if (/^\d+ x+$/.test(line)) numbers.push(Number.parseInt(line, 10))
    // Lines that are written during an abrupt exit can be lost if the reader is slow even then.
    if (numbers.length === 1_000) child.stdin.end()
  }
  expect(numbers).toEqual(Array.from({ length: 1_020 }, (_, number) => number))
  expect(await ended).toEqual([code, null])
})
