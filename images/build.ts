/**
 * `make images`: builds the images and writes an archive of each. Nothing is built again whose inputs have not changed.
 * images/README.md says what is in them and how they are kept up to date.
 */
import { mkdirSync } from 'node:fs'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { isDeepStrictEqual, parseArgs } from 'node:util'
import { type AptAccess, machineAccess, publicMirrors, sourcesOf } from './apt.ts'
import { type Base, findBase } from './base.ts'
import { logged } from './command.ts'
import {
  digestOf,
  type Entry,
  instanceEntries,
  layOut,
  nodeEntries,
  packageEntries,
  productEntries,
  stepsEntries,
} from './context.ts'
import { type Engine, findEngine, inputsLabel } from './engine.ts'
import { ImageError } from './errors.ts'
import { archivesDirectory, cacheDirectory, root } from './home.ts'
import { nodePackage, productionModules } from './packages.ts'
import { pgdgAnswers } from './pgdg.ts'
import { type ImagePlan, imageIds, planImages, type Suite } from './plan.ts'

const usage = `Usage: node images/build.ts [options]

Builds the container images with Docker (buildx) or buildah and writes an archive of each.

  --tag TAG          tag of localhost/espalier (default: dev); localhost/espalier-postgres has its major version
  --only ID,...      of: ${imageIds.join(', ')}
  --archives DIR     where archives go (default: ESPALIER_KIND_HOME/images, else .kind/images)
  --update           build anew from the newest base and packages
  --engine NAME      docker or buildah`

const say = (line: string): void => console.log(`images: ${line}`)

function parseOptions(argv: string[]) {
  const { values } = parseArgs({
    args: argv,
    options: {
      tag: { type: 'string', default: 'dev' },
      only: { type: 'string', default: '' },
      archives: { type: 'string', default: archivesDirectory(process.env) },
      update: { type: 'boolean', default: false },
      engine: { type: 'string' },
      help: { type: 'boolean', short: 'h', default: false },
    },
  })
  const only = values.only.split(',').filter(id => id !== '')
  const unknown = only.find(id => !imageIds.includes(id))
  if (unknown !== undefined) throw new ImageError(`--only: there is no image ${JSON.stringify(unknown)}`)
  if (!/^[\w][\w.-]{0,127}$/.test(values.tag)) throw new ImageError('--tag: not a tag')
  if (values.engine !== undefined && !['docker', 'buildah'].includes(values.engine)) {
    throw new ImageError('--engine: docker or buildah')
  }
  return { ...values, only, archives: resolve(values.archives) }
}

type Session = {
  engine: Engine
  run: ReturnType<typeof logged>
  access: () => Promise<AptAccess>
  update: boolean
  archives: string
  cache: string
  say: typeof say
  /** Each base is looked for, or made, once. */
  bases: Map<Suite, Promise<Base>>
}

async function entriesOf(plan: ImagePlan, { cache, run }: Session): Promise<Entry[]> {
  const common = [...nodeEntries(nodePackage(root)), ...(await stepsEntries(root))]
  if (plan.dockerfile === 'postgres') return [...common, ...(await instanceEntries(root))]
  const modules = await productionModules(root, cache, run, say)
  return [...common, ...(await productEntries(root)), ...(await packageEntries(modules))]
}

async function labelsOf(plan: ImagePlan): Promise<Record<string, string>> {
  const { version, license } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'))
  const major = plan.arguments.PG_MAJOR
  return {
    'org.opencontainers.image.title': plan.dockerfile === 'postgres' ? `Postgres ${major} for Espalier` : 'Espalier',
    'org.opencontainers.image.version': version,
    'org.opencontainers.image.licenses': plan.dockerfile === 'postgres' ? `${license} AND PostgreSQL` : license,
  }
}

async function build(plan: ImagePlan, session: Session): Promise<void> {
  const { engine, archives, access } = session
  const dockerfile = join(root, 'images', plan.dockerfile, 'Dockerfile')
  const looked = session.bases.get(plan.suite) ?? findBase(plan.suite, session)
  session.bases.set(plan.suite, looked)
  const base = await looked
  const entries = await entriesOf(plan, session)
  const labels = await labelsOf(plan)
  const settings = JSON.stringify([plan.name, plan.arguments, labels, process.arch, base.id])
  const inputs = await digestOf(entries, settings, await readFile(dockerfile, 'utf8'))

  const archive = join(archives, `${plan.id}.tar`)
  const note = `${archive}.inputs`
  let image = await engine.inspect(plan.name)
  if (session.update || image?.labels[inputsLabel] !== inputs) {
    say(`building ${plan.name} with ${engine.name}`)
    const context = await mkdtemp(join(tmpdir(), 'espalier-image-'))
    const secrets = await mkdtemp(join(tmpdir(), 'espalier-image-'))
    try {
      await layOut(entries, context)
      const { configuration, mirrors } = await access()
      const files = { apt: join(secrets, 'apt'), 'apt-sources': join(secrets, 'apt-sources') }
      await writeFile(files.apt, configuration)
      const ownWay = !isDeepStrictEqual(mirrors, publicMirrors)
      await writeFile(files['apt-sources'], ownWay ? sourcesOf(plan.suite, mirrors) : '')
      await engine.build({
        name: plan.name,
        dockerfile,
        context,
        arguments: { BASE: base.name, STEPS: await digestOf(await stepsEntries(root)), ...plan.arguments },
        labels: { ...labels, [inputsLabel]: inputs },
        secrets: files,
        cache: !session.update,
      })
    } finally {
      await rm(context, { recursive: true, force: true })
      await rm(secrets, { recursive: true, force: true })
    }
    const before = image?.id
    image = await engine.inspect(plan.name)
    if (before !== undefined && before !== image?.id) await engine.discard(before)
  }
  if (image === undefined) throw new ImageError(`${plan.name} was built and is not there`)
  const noted = await readFile(note, 'utf8').catch(() => '')
  if (noted !== `${plan.name} ${image.id}\n`) {
    await rm(note, { force: true })
    await engine.save(plan.name, archive)
    await writeFile(note, `${plan.name} ${image.id}\n`)
  }
  say(`${plan.name} in ${archive}`)
}

async function main(argv: string[]): Promise<void> {
  const options = parseOptions(argv)
  if (options.help) return console.log(usage)
  const cache = cacheDirectory(process.env)
  mkdirSync(cache, { recursive: true })
  await mkdir(options.archives, { recursive: true })
  const run = logged(join(options.archives, 'build.log'))
  const engine = await findEngine(run, options.engine)
  let known: Promise<AptAccess> | undefined
  const access = () => (known ??= machineAccess())
  const plan = planImages({ ...options, pgdg: await pgdgAnswers((await access()).configuration) })
  const session = {
    engine,
    run,
    access,
    update: options.update,
    archives: options.archives,
    cache,
    say,
    bases: new Map(),
  }
  for (const image of plan.images) await build(image, session)
  for (const major of plan.missing)
    say(`Postgres ${major} left out: only apt.postgresql.org has it, which does not answer`)
}

try {
  await main(process.argv.slice(2))
} catch (error) {
  if (!(error instanceof ImageError)) throw error
  console.error(`images: ${error.message}`)
  process.exitCode = 1
}
