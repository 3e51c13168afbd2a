/** `make kind-down`: removes the cluster and all its files except the build cache. */
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { logged } from '../../images/command.ts'
import { readCluster } from './cluster.ts'
import { answers, dockerOn, ownHost, stopEngine } from './engine.ts'
import { removeBridges, removeRules } from './network.ts'
import { say, script } from './script.ts'
import { pathsOf, readSettings } from './settings.ts'

const settings = readSettings(process.env)
const scratch = await mkdtemp(join(tmpdir(), 'espalier-kind-down-'))
const run = logged(join(scratch, 'log'))
const { engine, kubeconfig, cluster: file, log } = pathsOf(settings)

/** Detaches loop devices of files that were deleted with the node: their driver can no longer detach them. */
async function detachLoopDevices(): Promise<void> {
  for (const name of await readdir('/sys/block')) {
    const backing = await readFile(`/sys/block/${name}/loop/backing_file`, 'utf8').catch(() => '')
    if (backing.includes(`${engine}/`)) await run('losetup', ['--detach', `/dev/${name}`]).catch(() => {})
  }
}

async function networksOf(host: string): Promise<{ subnets: string[]; gateways: string[] }> {
  const docker = dockerOn(run, host)
  const ids = (await docker(['network', 'ls', '--quiet', '--filter', 'driver=bridge'])).trim().split('\n')
  const format = '{{range .IPAM.Config}}{{.Subnet}} {{.Gateway}}\n{{end}}'
  const lines = (await docker(['network', 'inspect', '--format', format, ...ids])).split('\n')
  const entries = lines.map(line => line.trim().split(' ')).filter(([subnet]) => subnet?.includes('/'))
  return {
    subnets: entries.map(([subnet = '']) => subnet),
    gateways: entries.map(([subnet = '', gateway = '']) => `${gateway.split('/')[0]}/${subnet.split('/')[1]}`),
  }
}

async function main(): Promise<void> {
  const known = await readCluster(settings).catch(() => undefined)
  const host = known?.dockerHost ?? ownHost(settings)
  if (await answers(run, host)) {
    const docker = dockerOn(run, host)
    const filter = `label=io.x-k8s.kind.cluster=${settings.name}`
    const nodes = (await docker(['ps', '--all', '--quiet', '--filter', filter])).trim().split('\n').filter(Boolean)
    if (nodes.length > 0) await docker(['rm', '--force', '--volumes', ...nodes])
    if (host === ownHost(settings)) {
      const { subnets, gateways } = await networksOf(host)
      await stopEngine(settings, run)
      await removeRules(run, subnets)
      await removeBridges(run, gateways)
    }
  }
  await stopEngine(settings, run)
  await detachLoopDevices()
  for (const path of [
    kubeconfig,
    file,
    log,
    ...['kind.yaml', 'values.yaml', 'ca.crt', 'dump'].map(name => join(settings.home, name)),
  ]) {
    await rm(path, { recursive: true, force: true })
  }
  say(`${settings.name} is down`)
}

try {
  await script(main)
} finally {
  await rm(scratch, { recursive: true, force: true })
}
