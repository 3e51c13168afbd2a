/**
 * `make e2e PROVIDER=embedded|kind`: the end-to-end suite on one machine by itself, or on a kind cluster that is brought up
 * and given Espalier first. Whatever follows goes to Vitest.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pgVersions, systemNamespace } from '../crds/index.ts'
import { logged } from '../images/command.ts'
import { kubectlOf } from './kind/addons.ts'
import { readCluster } from './kind/cluster.ts'
import { pathsOf, readSettings, root } from './kind/settings.ts'

const [provider = 'embedded', ...rest] = process.argv.slice(2)

async function run(args: string[], env: NodeJS.ProcessEnv = {}): Promise<number> {
  const child = spawn(process.execPath, args, { cwd: root, stdio: 'inherit', env: { ...process.env, ...env } })
  const [code] = await once(child, 'close')
  return code ?? 1
}
const vitest = (args: string[], env: NodeJS.ProcessEnv) =>
  run([join(root, 'node_modules/vitest/vitest.mjs'), 'run', ...args], env)

async function onKind(): Promise<number> {
  for (const script of ['up.ts', 'deploy.ts']) {
    const code = await run([join(root, 'e2e/kind', script)])
    if (code !== 0) return code
  }
  const settings = readSettings(process.env)
  const cluster = await readCluster(settings)
  const kubectl = kubectlOf(logged(pathsOf(settings).log), cluster)
  // The API's certificate is from the installation's own authority.
  const authority = join(settings.home, 'ca.crt')
  const get = [
    'get',
    'configmap',
    'espalier-ca',
    '--namespace',
    systemNamespace,
    '--output',
    'jsonpath={.data.ca\\.crt}',
  ]
  await writeFile(authority, await kubectl(get))
  const built = await Promise.all(
    pgVersions.map(major =>
      readFile(join(settings.home, 'images', `postgres-${major}.tar.image`)).catch(() => undefined),
    ),
  )
  const majors = pgVersions.filter((_, index) => built[index] !== undefined)
  return vitest(['--config', 'e2e/vitest.config.ts', ...rest], {
    ESPALIER_E2E_PROVIDER: 'kind',
    ESPALIER_E2E_PG_VERSIONS: majors.join(','),
    NODE_EXTRA_CA_CERTS: authority,
  })
}

if (provider === 'embedded') process.exitCode = await vitest(['e2e/*.test.ts', ...rest], {})
else if (provider === 'kind') process.exitCode = await onKind()
else {
  console.error(`e2e: PROVIDER must be embedded or kind, not ${JSON.stringify(provider)}`)
  process.exitCode = 2
}
