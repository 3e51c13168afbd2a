/**
 * `make bench`: runs every benchmark in a separate process, one after another. `make bench ARGS="api create"` runs only
 * those two. Each benchmark prints ratios to a baseline of the same run.
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
  'console',
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
  // The benchmark of the console is beside the console's tests, because it needs the types of a browser.
  const file = name === 'console' ? '../console/browser/figures.ts' : `${name}.ts`
  const path = fileURLToPath(new URL(file, import.meta.url))
  const { status } = spawnSync(process.execPath, [path], { stdio: 'inherit' })
  if (status !== 0) process.exitCode = 1
}
