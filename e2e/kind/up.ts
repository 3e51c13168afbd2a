/**
 * `make kind-up`: a kind cluster on this machine, with or without Docker and a registry. When it is run again, it
 * repairs an incomplete cluster and does not change a complete cluster.
 */
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { logged, type Run } from '../../images/command.ts'
import { installAddons, kubectlOf } from './addons.ts'
import { type ClusterFile, readCluster, writeCluster } from './cluster.ts'
import { kindConfiguration } from './configuration.ts'
import { answers, dockerOn, findForeignEngine, type KindEngine, startEngine } from './engine.ts'
import { KindError } from './errors.ts'
import { makeNodeImage } from './node-image.ts'
import { joinNodes } from './nodes.ts'
import { ensurePackages } from './packages.ts'
import { findPorts } from './ports.ts'
import { buildPrograms, type Programs } from './programs.ts'
import { say, script } from './script.ts'
import { pathsOf, readSettings, type Settings } from './settings.ts'

const started = Date.now()
/** Newer than the default image of kind's release, so it is set explicitly. */
const stockImage = 'docker.io/kindest/node:v1.36.1'
const pullTimeoutMs = 300_000

/** Returns the cluster of an earlier run if it still serves. */
async function isUp(settings: Settings, run: Run): Promise<ClusterFile | undefined> {
  const cluster = await readCluster(settings).catch(() => undefined)
  if (cluster === undefined || !(await answers(run, cluster.dockerHost))) return undefined
  const serves = await kubectlOf(
    run,
    cluster,
  )(['get', '--raw', '/readyz', '--request-timeout=5s']).then(
    () => true,
    () => false,
  )
  return serves ? cluster : undefined
}

type Ground = { engine: KindEngine; flavour: ClusterFile['flavour']; image: string; programs: Programs }

async function prepare(settings: Settings, run: Run): Promise<Ground> {
  const { log } = pathsOf(settings)
  const foreign = await findForeignEngine(run, process.env)
  if (foreign !== undefined) {
    const pulled = dockerOn(run, foreign.host)(['pull', '--quiet', stockImage], { timeoutMs: pullTimeoutMs })
    const isStock = await pulled.then(
      () => true,
      () => false,
    )
    if (isStock) {
      say(`Docker answers and ${stockImage} is here`)
      return {
        engine: foreign,
        flavour: 'stock',
        image: stockImage,
        programs: await buildPrograms(settings.cache, log, say, 'tools'),
      }
    }
  }
  if (process.platform !== 'linux') throw new KindError('without a registry a cluster can be made on Linux only')
  say(foreign === undefined ? 'no Docker engine answers: starting one' : 'no registry answers: making the node here')
  await ensurePackages(run, say)
  const programs = await buildPrograms(settings.cache, log, say, 'all')
  const node = await makeNodeImage(settings.cache, programs, log, say)
  const engine = foreign ?? (await startEngine(settings, run, programs.path('runc')))
  const docker = dockerOn(run, engine.host)
  await docker(['image', 'inspect', node.name]).catch(() => docker(['load', '--quiet', '--input', node.archive]))
  return { engine, flavour: 'self-made', image: node.name, programs }
}

async function create(settings: Settings, run: Run, ground: Ground): Promise<ClusterFile> {
  const { engine, flavour, image, programs } = ground
  const { name, home } = settings
  const { kubeconfig } = pathsOf(settings)
  const docker = dockerOn(run, engine.host)
  const env = { ...process.env, DOCKER_HOST: engine.host }
  const kind = (args: string[]) => run(programs.path('kind'), args, { env })

  await kind(['delete', 'cluster', '--name', name, '--kubeconfig', kubeconfig])
  const ports = await findPorts()
  const configuration = join(home, 'kind.yaml')
  await writeFile(configuration, kindConfiguration(flavour, ports, settings.workers))
  say('making the cluster')
  const flags = [
    '--name',
    name,
    '--config',
    configuration,
    '--kubeconfig',
    kubeconfig,
    '--image',
    image,
    '--wait',
    '180s',
  ]
  await kind(['create', 'cluster', ...flags])

  const node = `${name}-control-plane`
  const addresses = await docker([
    'inspect',
    '--format',
    '{{range .NetworkSettings.Networks}}{{.IPAddress}} {{.Gateway}}{{end}}',
    node,
  ])
  const [nodeAddress = '', clientAddress = ''] = addresses.trim().split(' ')
  const paths = { kubectl: programs.path('kubectl'), helm: programs.path('helm'), kind: programs.path('kind') }
  return {
    flavour,
    name,
    kubeconfig,
    node,
    nodeAddress,
    clientAddress,
    dockerHost: engine.host,
    ports,
    programs: paths,
  }
}

async function main(): Promise<void> {
  const settings = readSettings(process.env)
  await mkdir(settings.home, { recursive: true })
  await mkdir(settings.cache, { recursive: true })
  const { log } = pathsOf(settings)
  await writeFile(log, '')
  const run = logged(log)
  const cluster = (await isUp(settings, run)) ?? (await create(settings, run, await prepare(settings, run)))
  if (settings.workers > 0) await joinNodes(run, cluster)
  await installAddons(run, cluster)
  await writeCluster(settings, cluster)
  say(`${cluster.name} is up after ${Math.round((Date.now() - started) / 1000)} s; KUBECONFIG=${cluster.kubeconfig}`)
}

await script(main)
