/** The shared options of all `espalier archive` commands for the store and its keys. */
import { ArchiveError } from '../../../archive/errors.ts'
import { checkKey } from '../../../archive/key-check.ts'
import { type Incarnation, parseIncarnation } from '../../../archive/names.ts'
import { type ArchiveKeys, archiveKey } from '../../../archive/object/key.ts'
import type { Archive } from '../../../archive/put.ts'
import { openDirectoryStore } from '../../../archive/store/directory.ts'
import type { ObjectStore } from '../../../archive/store/store.ts'
import { readFlagFile, UsageError } from '../../command.ts'

export const storeOptions = {
  store: { type: 'string' },
  'key-file': { type: 'string' },
  's3-endpoint': { type: 'string' },
  's3-region': { type: 'string', default: 'us-east-1' },
  's3-path-style': { type: 'boolean', default: false },
  's3-authority': { type: 'string' },
} as const

export const storeHelp = `  --store URL              s3://BUCKET/PREFIX or file:///DIRECTORY
  --key-file FILE          the keys of the archive: 32 bytes in base64, one per line. New objects are encrypted with the first key;
                           the other keys decrypt older objects. Without the keys the archive cannot be read
  --s3-endpoint URL        the S3 server, if it is not AWS
  --s3-region NAME         the region of the bucket (default: us-east-1)
  --s3-path-style          the bucket is in the path instead of the host name
  --s3-authority FILE      the CA of the S3 server's certificate, PEM, instead of the system's

S3 access keys come from the AWS SDK's default sources: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, files, or the metadata service.`

export const incarnationOptions = {
  database: { type: 'string' },
  incarnation: { type: 'string', default: '1' },
} as const
export const incarnationHelp = `  --database ID            the id of the database, a UUID
  --incarnation NUMBER     the number of the database's volume: 1, or higher after a restore in place (default: 1)`

/** @throws UsageError */
export function incarnationOf(flags: { database?: string | undefined; incarnation: string }): Incarnation {
  const parsed = parseIncarnation(required(flags, 'database'), flags.incarnation)
  if (parsed === undefined) throw new UsageError('--database must be a UUID, and --incarnation a number from 1')
  return parsed
}

type StoreFlags = {
  store?: string | undefined
  'key-file'?: string | undefined
  's3-endpoint'?: string | undefined
  's3-region': string
  's3-path-style': boolean
  's3-authority'?: string | undefined
}

/** Opens the store and checks the key against it. The caller closes the store. @throws UsageError, Error */
export async function openArchive(flags: StoreFlags): Promise<Archive> {
  const keys = keysOf(await readFlagFile('--key-file', required(flags, 'key-file')))
  const url = required(flags, 'store')
  return explained(async () => {
    const store = await openStore(url, flags)
    await checkKey(store, keys).catch((error: unknown) => {
      store.close()
      throw error
    })
    return { store, keys }
  })
}

/** Opens the archive for `work`, and closes it afterwards. @throws UsageError, or Error with the fault's message */
export async function withArchive<Result>(
  flags: StoreFlags,
  work: (archive: Archive) => Promise<Result>,
): Promise<Result> {
  const archive = await openArchive(flags)
  try {
    return await explained(() => work(archive))
  } finally {
    archive.store.close()
  }
}

export function required<Name extends string>(
  flags: { readonly [name in Name]?: string | undefined },
  name: Name,
): string {
  const value = flags[name]
  if (value === undefined || value === '') throw new UsageError(`--${name} is required`)
  return value
}

function keysOf(text: string): ArchiveKeys {
  const lines = text.split('\n').filter(line => line.trim() !== '')
  const [current, ...previous] = lines.map((line, index) => {
    const bytes = Buffer.from(line.trim(), 'base64')
    // The line is a secret: the error contains only its number.
    if (bytes.length !== 32 || bytes.toString('base64') !== line.trim())
      throw new UsageError(`--key-file: line ${index + 1} must be 32 bytes in base64`)
    return archiveKey(bytes)
  })
  if (current === undefined)
    throw new UsageError('--key-file: contains no key; `openssl rand -base64 32` generates one')
  return { current, previous }
}

async function openStore(url: string, flags: StoreFlags): Promise<ObjectStore> {
  const { protocol, host, pathname } = URL.parse(url) ?? { protocol: '', host: '', pathname: '' }
  const path = pathname.replace(/\/+$/, '')
  if (protocol === 'file:' && host === '' && path !== '') return openDirectoryStore(decodeURIComponent(path))
  if (protocol !== 's3:' || host === '') throw new UsageError('--store must be s3://BUCKET/PREFIX or file:///DIRECTORY')
  // The SDK is loaded only for a bucket.
  const { openS3Store } = await import('../../../archive/store/s3.ts')
  const authorityFile = flags['s3-authority']
  return openS3Store({
    bucket: host,
    prefix: path.replace(/^\/+/, ''),
    endpoint: flags['s3-endpoint'],
    region: flags['s3-region'],
    pathStyle: flags['s3-path-style'],
    authority: authorityFile === undefined ? undefined : await readFlagFile('--s3-authority', authorityFile),
  })
}

/** Converts an ArchiveError into an Error with the same message: the user can fix the store or the key. */
async function explained<Result>(work: () => Promise<Result>): Promise<Result> {
  try {
    return await work()
  } catch (error) {
    throw error instanceof ArchiveError ? new Error(error.message, { cause: error }) : error
  }
}
