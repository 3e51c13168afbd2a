/**
 * Stores objects in an S3 bucket, below a prefix. An object larger than 17 MiB is uploaded in parts, and appears when
 * it is complete. If the server supports conditional writes (`If-None-Match: *`), all writes are conditional.
 * `openS3Store` tests whether the server supports conditional writes.
 */
import { randomBytes } from 'node:crypto'
import { Agent } from 'node:https'
import type { Readable } from 'node:stream'
import {
  AbortMultipartUploadCommand,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListMultipartUploadsCommand,
  PutObjectCommand,
  paginateListObjectsV2,
  S3Client,
  UploadPartCommand,
} from '@aws-sdk/client-s3'
import { probePrefix } from '../names.ts'
import { attempt, hasStatus } from './s3-errors.ts'
import { upload } from './s3-upload.ts'
import { isObjectName, type ObjectStore, type StoredObject } from './store.ts'

export type S3Settings = {
  bucket: string
  /** Prefix of all names, without leading or trailing slashes; may be empty. */
  prefix: string
  /** For a server other than AWS, for example `https://minio.example:9000`. */
  endpoint?: string | undefined
  region: string
  /** Whether the bucket is the first element of the path instead of a part of the host name. */
  pathStyle: boolean
  /** Certificate authorities (PEM) that verify the server, instead of Node's. */
  authority?: string | undefined
  /** Absent: the AWS SDK reads the credentials from the environment, files or the metadata service. */
  credentials?: { accessKeyId: string; secretAccessKey: string } | undefined
  /** Maximum number of names in a list response; absent: 1,000, S3's maximum. */
  namesOfPage?: number | undefined
}

const mostAttempts = 4
const connectionTimeoutMs = 10_000
const socketTimeoutMs = 60_000

/** @throws ArchiveError `store` if the archive cannot write to the bucket */
export async function openS3Store(settings: S3Settings): Promise<ObjectStore> {
  const client = clientOf(settings)
  try {
    return s3Store(client, settings, await supportsConditions(client, settings))
  } catch (error) {
    client.destroy()
    throw error
  }
}

function clientOf({ endpoint, region, pathStyle, authority, credentials }: S3Settings): S3Client {
  return new S3Client({
    region,
    forcePathStyle: pathStyle,
    maxAttempts: mostAttempts,
    // For a byte range, some servers send the checksum of the complete object, and the SDK would reject the range. The
    // archive authenticates each object itself.
    responseChecksumValidation: 'WHEN_REQUIRED',
    ...(endpoint === undefined ? {} : { endpoint }),
    ...(credentials === undefined ? {} : { credentials }),
    requestHandler: {
      connectionTimeout: connectionTimeoutMs,
      socketTimeout: socketTimeoutMs,
      httpsAgent: new Agent({
        keepAlive: true,
        maxSockets: 64,
        ...(authority === undefined ? {} : { ca: authority }),
      }),
    },
  })
}

/**
 * Whether both kinds of writes refuse to replace an object: `PutObject`, and the completion of an upload in parts.
 * On some servers, only `PutObject` refuses.
 */
async function supportsConditions(client: S3Client, settings: S3Settings): Promise<boolean> {
  const { bucket: Bucket, prefix } = settings
  const Key = `${prefix === '' ? '' : `${prefix}/`}${probePrefix}${randomBytes(8).toString('hex')}`
  const at = { Bucket, Key }
  const IfNoneMatch = '*'
  const Body = 'Espalier writes this object to test whether the store refuses to replace an existing object.\n'
  const isRefused = (work: Promise<unknown>) =>
    work.then(
      () => false,
      (error: unknown) => hasStatus(error, 412) || Promise.reject(error),
    )
  return attempt(locationOf(settings), async () => {
    try {
      await client.send(new PutObjectCommand({ ...at, Body }))
      const { UploadId } = await client.send(new CreateMultipartUploadCommand(at))
      const { ETag } = await client.send(new UploadPartCommand({ ...at, UploadId, PartNumber: 1, Body }))
      const MultipartUpload = { Parts: [{ ETag, PartNumber: 1 }] }
      const parts = { ...at, UploadId, MultipartUpload, IfNoneMatch }
      const inParts = await isRefused(client.send(new CompleteMultipartUploadCommand(parts)))
      if (inParts) await client.send(new AbortMultipartUploadCommand({ ...at, UploadId })).catch(() => {})
      return inParts && (await isRefused(client.send(new PutObjectCommand({ ...at, Body, IfNoneMatch }))))
    } finally {
      await client.send(new DeleteObjectCommand(at)).catch(() => {})
    }
  })
}

const locationOf = ({ bucket, prefix }: S3Settings): string => `s3://${bucket}/${prefix === '' ? '' : `${prefix}/`}`

function s3Store(client: S3Client, settings: S3Settings, isConditional: boolean): ObjectStore {
  const { bucket: Bucket, prefix: below, namesOfPage } = settings
  const prefix = below === '' ? '' : `${below}/`
  const keyOf = (name: string): string => {
    if (!isObjectName(name)) throw new RangeError(`${JSON.stringify(name)} is not a valid object name`)
    return `${prefix}${name}`
  }
  const at = (name: string) => ({ Bucket, Key: keyOf(name) })
  const location = locationOf(settings)
  const stat = (name: string) =>
    attempt(name, async () => {
      const found = await ifPresent(() => client.send(new HeadObjectCommand(at(name))))
      return found && { name, size: found.ContentLength ?? 0, modifiedAt: found.LastModified ?? new Date(0) }
    })
  return {
    location,
    isConditional,
    stat,
    create: async (name, bytes, signal) => {
      if (!isConditional && (await stat(name)) !== undefined) return 'exists'
      const target = { ...at(name), ...(isConditional ? { IfNoneMatch: '*' as const } : {}) }
      return attempt(name, () => upload(client, target, bytes, signal))
    },
    read: (name, range, signal) =>
      attempt(name, async () => {
        const part = range && `bytes=${range.first}-${range.first + range.length - 1}`
        const command = new GetObjectCommand({ ...at(name), ...(part === undefined ? {} : { Range: part }) })
        const found = await ifPresent(() => client.send(command, signal === undefined ? {} : { abortSignal: signal }))
        // The type of `Body` also has browser streams. In Node, it is a Readable.
        return found && reading(name, found.Body as Readable)
      }),
    list: (names, after) =>
      listed(
        client,
        { Bucket, Prefix: `${prefix}${names}`, after: after && `${prefix}${after}`, namesOfPage },
        { prefix, shown: names || location },
      ),
    delete: name => attempt(name, async () => void (await client.send(new DeleteObjectCommand(at(name))))),
    deleteAbandonedUploads: (names, before) =>
      attempt(names || location, () => abortUploads(client, { Bucket, Prefix: `${prefix}${names}` }, before)),
    close: () => client.destroy(),
  }
}

async function ifPresent<Result>(work: () => Promise<Result>): Promise<Result | undefined> {
  try {
    return await work()
  } catch (error) {
    if (hasStatus(error, 404) && !(error instanceof Error && error.name === 'NoSuchBucket')) return undefined
    throw error
  }
}

/** Converts errors during the read, such as a lost connection, to ArchiveError `store`. */
async function* reading(name: string, body: Readable): AsyncGenerator<Uint8Array> {
  const chunks = body[Symbol.asyncIterator]() as AsyncIterator<Uint8Array>
  try {
    for (;;) {
      const { done, value } = await attempt(name, () => chunks.next())
      if (done) return
      yield value
    }
  } finally {
    body.destroy()
  }
}

type Listing = { Bucket: string; Prefix: string; after: string | undefined; namesOfPage: number | undefined }

async function* listed(
  client: S3Client,
  { after, namesOfPage, ...where }: Listing,
  { prefix, shown }: { prefix: string; shown: string },
): AsyncGenerator<StoredObject> {
  const start = after === undefined ? {} : { StartAfter: after }
  const pages = paginateListObjectsV2(
    { client, ...(namesOfPage && { pageSize: namesOfPage }) },
    { ...where, ...start },
  )[Symbol.asyncIterator]()
  for (;;) {
    const { done, value } = await attempt(shown, () => pages.next())
    if (done) return
    for (const { Key, Size, LastModified } of value.Contents ?? [])
      if (Key !== undefined)
        yield { name: Key.slice(prefix.length), size: Size ?? 0, modifiedAt: LastModified ?? new Date(0) }
  }
}

async function abortUploads(
  client: S3Client,
  where: { Bucket: string; Prefix: string },
  before: Date,
): Promise<number> {
  let count = 0
  let markers = {}
  for (;;) {
    const page = await client.send(new ListMultipartUploadsCommand({ ...where, ...markers }))
    for (const { Key, UploadId, Initiated } of page.Uploads ?? []) {
      if (Key === undefined || UploadId === undefined || Initiated === undefined || Initiated >= before) continue
      await ifPresent(() => client.send(new AbortMultipartUploadCommand({ Bucket: where.Bucket, Key, UploadId })))
      count++
    }
    if (page.IsTruncated !== true) return count
    markers = { KeyMarker: page.NextKeyMarker, UploadIdMarker: page.NextUploadIdMarker }
  }
}
