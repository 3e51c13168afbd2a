/**
 * The node image of a self-made cluster, as an archive in the cache. It is built once for each version of its inputs.
 * It contains every image of the cluster, so that a cluster starts without a registry.
 */
import { createHash } from 'node:crypto'
import { copyFile, cp, mkdir, mkdtemp, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type AptAccess, machineAccess, publicMirrors, sourcesOf } from '../../images/apt.ts'
import { findBase } from '../../images/base.ts'
import { logged, type Run } from '../../images/command.ts'
import { installer } from '../../images/debian.ts'
import { type Engine, findEngine } from '../../images/engine.ts'
import { componentImages, proxyImage } from './component-images.ts'
import type { Programs } from './programs.ts'
import { root } from './settings.ts'
import { kubernetesVersion } from './versions.ts'

const sources = join(import.meta.dirname, 'node')
const steps = join(root, 'images/steps')
const suite = 'trixie'
const nodePrograms = ['kubeadm', 'kubectl', 'kubelet', 'containerd', 'containerd-shim-runc-v2', 'ctr'] as const

type NodeImage = { name: string; archive: string }

async function digestOf(programs: Programs): Promise<string> {
  const hash = createHash('sha256')
    .update(programs.directory)
    .update(await readFile(join(steps, 'install.sh')))
  for (const file of (await readdir(sources)).sort()) hash.update(await readFile(join(sources, file)))
  for (const file of ['node-image.ts', 'component-images.ts'])
    hash.update(await readFile(join(import.meta.dirname, file)))
  return hash.digest('hex').slice(0, 16)
}

/** Builds an image with a single file. */
async function wrap(run: Run, binary: string, path: string, name: string, entrypoint: boolean): Promise<void> {
  const container = (await run('buildah', ['from', 'scratch'])).trim()
  try {
    await run('buildah', ['copy', '--quiet', '--chmod', '0755', container, binary, path])
    const start = entrypoint ? ['--entrypoint', JSON.stringify([path])] : []
    await run('buildah', ['config', '--env', 'PATH=/usr/local/bin:/', ...start, container])
    await run('buildah', ['commit', '--quiet', '--format', 'docker', container, name])
  } finally {
    await run('buildah', ['rm', container])
  }
}

/** Writes files that define, during an image build, how this machine reaches Debian's packages. */
async function writeSecrets(access: AptAccess, directory: string): Promise<Record<string, string>> {
  const secrets = { apt: join(directory, 'apt'), 'apt-sources': join(directory, 'apt-sources') }
  const isPublic = JSON.stringify(access.mirrors) === JSON.stringify(publicMirrors)
  await writeFile(secrets.apt, access.configuration)
  await writeFile(secrets['apt-sources'], isPublic ? '' : sourcesOf(suite, access.mirrors))
  return secrets
}

type Kitchen = { run: Run; engine: Engine; base: string; programs: Programs; secrets: Record<string, string> }

async function build({ engine, base, secrets }: Kitchen, name: string, dockerfile: string, context: string) {
  await cp(steps, join(context, 'steps'), { recursive: true })
  const request = { name, dockerfile: join(sources, dockerfile), context, arguments: { BASE: base }, labels: {} }
  await engine.build({ ...request, secrets, cache: true })
}

/** Writes every image of the cluster as an archive to this directory. */
async function saveComponents(kitchen: Kitchen, scratch: string, directory: string): Promise<void> {
  const { run, engine, programs } = kitchen
  const listed = await run(programs.path('kubeadm'), [
    'config',
    'images',
    'list',
    '--kubernetes-version',
    kubernetesVersion,
  ])
  for (const { name, program, path, entrypoint } of componentImages(listed.trim().split('\n'))) {
    await wrap(run, programs.path(program), path, name, entrypoint)
    await engine.save(name, join(directory, `${program}.tar`))
    await run('buildah', ['rmi', name])
  }
  const context = join(scratch, 'proxy')
  await mkdir(context)
  await copyFile(programs.path('kube-proxy'), join(context, 'kube-proxy'))
  await build(kitchen, proxyImage, 'proxy.Dockerfile', context)
  await engine.save(proxyImage, join(directory, 'kube-proxy.tar'))
  await run('buildah', ['rmi', proxyImage])
}

async function layOutNode({ programs }: Kitchen, context: string): Promise<void> {
  await mkdir(join(context, 'bin'))
  for (const name of nodePrograms) await copyFile(programs.path(name), join(context, 'bin', name))
  await copyFile(programs.path('runc'), join(context, 'runc'))
  await writeFile(join(context, 'version'), kubernetesVersion)
  for (const file of ['containerd.toml', 'cni.json', 'storage.yaml', 'entrypoint.sh']) {
    await copyFile(join(sources, file), join(context, file))
  }
}

/** @throws ImageError, KindError */
export async function makeNodeImage(
  cache: string,
  programs: Programs,
  log: string,
  say: (line: string) => void,
): Promise<NodeImage> {
  const digest = await digestOf(programs)
  const archives = join(cache, 'nodes')
  const image = { name: `localhost/espalier-node:${digest}`, archive: join(archives, `${digest}.tar`) }
  if (await stat(image.archive).catch(() => undefined)) return image
  say('making the node image')
  const run = logged(log)
  await mkdir(archives, { recursive: true })
  const scratch = await mkdtemp(join(cache, '.node-'))
  try {
    const install = installer(run, say)
    const engine = await findEngine(run, { wanted: 'buildah', install })
    const access = await machineAccess()
    const base = await findBase(suite, { engine, run, install, access, update: false, say })
    const kitchen = { run, engine, base: base.name, programs, secrets: await writeSecrets(access, scratch) }
    const context = join(scratch, 'node')
    await mkdir(join(context, 'images'), { recursive: true })
    await saveComponents(kitchen, scratch, join(context, 'images'))
    await layOutNode(kitchen, context)
    await build(kitchen, image.name, 'Dockerfile', context)
    await engine.save(image.name, `${image.archive}.new`)
    await rename(`${image.archive}.new`, image.archive)
    await run('buildah', ['rmi', image.name])
    for (const old of await readdir(archives)) if (!old.startsWith(digest)) await rm(join(archives, old))
  } finally {
    await rm(scratch, { recursive: true, force: true })
  }
  return image
}
