/** `make pair`, which repeats a failing seed of the differential test. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { sendRequest } from '../testing/client.ts'
import { postgrestBinary } from './testing/programs.ts'

const script = fileURLToPath(new URL('./testing/pair.ts', import.meta.url))
const title = "make pair sends a seed's request to both servers, and runs until it is interrupted"

test.skipIf(postgrestBinary() === undefined)(title, async ({ onTestFinished }) => {
  const child = spawn(process.execPath, [script, '14', '3', 'db-max-rows=2'], { stdio: ['ignore', 'pipe', 'inherit'] })
  onTestFinished(() => {
    child.kill('SIGKILL')
  })
  const ended = once(child, 'exit')
  let text = ''
  child.stdout.setEncoding('utf8')
  for await (const chunk of child.stdout) {
    text += chunk
    if (text.includes('Ctrl-C')) break
  }
  expect(text).toMatch(/\ncurl -si .*\n/)
  expect(text).toMatch(/\nPostgREST: \d{3} [\s\S]*\nours: \d{3} [\s\S]*\nThe judge accepts our answer\./)
  const ports = [...text.matchAll(/URL=http:\/\/127\.0\.0\.1:(\d+)/g)].map(([, port]) => Number(port))
  const roots = await Promise.all(ports.map(port => sendRequest(port, '/')))
  expect(roots.map(({ headers }) => String(headers.server).split('/')[0])).toEqual(['postgrest', 'espalier-rest'])
  child.kill('SIGINT')
  expect(await ended).toEqual([0, null])
  await expect(sendRequest(ports[0] ?? 0, '/')).rejects.toThrow('ECONNREFUSED')
})

test('an invalid seed or request prints the usage', async () => {
  const child = spawn(process.execPath, [script, '14'], { stdio: ['ignore', 'ignore', 'pipe'] })
  const [output] = await once(child.stderr.setEncoding('utf8'), 'data')
  expect(output).toContain('Usage: make pair')
  expect(await once(child, 'exit')).toEqual([2, null])
})
