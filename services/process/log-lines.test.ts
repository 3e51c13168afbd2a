/** Log lines: one write for what one turn logs, and none is lost when the process ends. */
import { setImmediate as turn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { linesOfTurns } from './log-lines.ts'

function recorded() {
  const written: string[] = []
  let exit = () => {}
  const lines = linesOfTurns(
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

test('what has not been written is when the process ends', async () => {
  const { written, lines, exit } = recorded()
  lines.write('last\n')
  exit()
  await turn()
  expect(written).toEqual(['last\n', 'flushed'])
})
