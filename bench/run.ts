/**
 * `make bench`: every benchmark, one after another, each in a separate process; `make bench ARGS="api create"` runs
 * some. Each prints ratios against a baseline of its own run.
 */
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'

const benchmarks = [
  'create',
  'api',
  'scale',
  'gateway',
  'gateway-http',
  'gateway-haproxy',
  'gateway-https',
  'gateway-silent',
  'gateway-logins',
  'gateway-flood',
  'informer',
  'start',
  'rest',
  'sql',
  'mcp',
  'rag',
  'archive',
  'archive-wal',
  'archiving',
]

const wanted = process.argv.slice(2)
const unknown = wanted.find(name => !benchmarks.includes(name))
if (unknown !== undefined) {
  console.error(`no benchmark ${JSON.stringify(unknown)}; there are ${benchmarks.join(', ')}`)
  process.exit(2)
}
for (const name of wanted.length > 0 ? wanted : benchmarks) {
  console.log(`\n${name}`)
  const path = fileURLToPath(new URL(`${name}.ts`, import.meta.url))
  const { status } = spawnSync(process.execPath, [path], { stdio: 'inherit' })
  if (status !== 0) process.exitCode = 1
}
