/** Tests the S3 store with real S3 servers: one supports conditional writes, one does not. */
import { createHash, randomBytes } from 'node:crypto'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { CreateMultipartUploadCommand, S3Client } from '@aws-sdk/client-s3'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { archiveKey } from '../object/key.ts'
import { putOnce } from '../put.ts'
import { gofakes3, program, type S3Server, startS3Server, versitygw } from '../testing/s3-servers.ts'
import { openS3Store } from './s3.ts'
import type { ObjectStore } from './store.ts'
import { describeObjectStore, faultOf } from './testing/conformance.ts'

const isSoak = process.env.ESPALIER_SOAK === '1'
const keys = { current: archiveKey(randomBytes(32)), previous: [] }
const contentOf = (bytes: Uint8Array) => ({
  sha256: createHash('sha256').update(bytes).digest('hex'),
  size: bytes.length,
})
async function* once(bytes: Uint8Array) {
  yield bytes
}
const put = (store: ObjectStore, name: string, bytes: Uint8Array) =>
  putOnce({ store, keys }, { name, content: contentOf(bytes), source: once(bytes) })

const servers = [
  { kind: gofakes3, isConditional: false, isHere: () => program(gofakes3) !== undefined },
  { kind: versitygw, isConditional: true, isHere: () => isSoak && program(versitygw) !== undefined },
]

for (const { kind, isConditional, isHere } of servers) {
  if (!isHere()) {
    test.skip(`S3 of ${kind.name}`, () => {})
    continue
  }
  let server: S3Server
  beforeAll(async () => {
    server = await startS3Server(kind)
  })
  afterAll(() => server?.stop())
  let number = 0
  const open = () =>
    openS3Store({ ...server.settings, prefix: `store-${number++}`, namesOfPage: isSoak ? undefined : 25 })

  describeObjectStore(`S3 of ${kind.name}`, open)

  describe(`S3 of ${kind.name}`, () => {
    test('whether the server supports conditional writes is detected', async () => {
      expect((await open()).isConditional).toBe(isConditional)
    })

    test('if several writers write different content under one name, at most one writer succeeds', async () => {
      const store = await open()
      for (let round = 0; round < (isSoak ? 30 : 10); round++) {
        const writers = Array.from({ length: 3 }, () => put(store, `race/${round}`, randomBytes(1000)))
        const results = await Promise.allSettled(writers)
        expect(results.filter(({ status }) => status === 'fulfilled').length).toBeLessThanOrEqual(1)
      }
    })

    test('an interrupted writer succeeds when it retries', async () => {
      const store = await open()
      const bytes = randomBytes(1000)
      const interrupted = putOnce({ store, keys }, { name: 'again', content: contentOf(bytes), source: failing() })
      await expect(interrupted).rejects.toThrow('the sender failed')
      expect(await put(store, 'again', bytes)).toBe('created')
      expect(await put(store, 'again', bytes)).toBe('exists')
    })

    test('an upload of a killed writer is deleted once it is old enough', async () => {
      const store = await open()
      const { bucket: Bucket, endpoint = '', ...rest } = server.settings
      const client = new S3Client({ ...rest, endpoint, forcePathStyle: true })
      const Key = store.location.slice(`s3://${Bucket}/`.length)
      await client.send(new CreateMultipartUploadCommand({ Bucket, Key: `${Key}a/b` }))
      client.destroy()
      expect(await store.deleteAbandonedUploads('', new Date(Date.now() - 3600_000))).toBe(0)
      expect(await store.deleteAbandonedUploads('other/', new Date(Date.now() + 60_000))).toBe(0)
      expect(await store.deleteAbandonedUploads('', new Date(Date.now() + 60_000))).toBe(1)
      expect(await store.deleteAbandonedUploads('', new Date(Date.now() + 60_000))).toBe(0)
    })

    test('a killed server causes a temporary fault; versitygw accepts writes after its restart', async () => {
      const store = await open()
      await server.kill()
      expect(await faultOf(put(store, 'killed', randomBytes(10)))).toMatchObject({ kind: 'store', isTemporary: true })
      await server.start()
      if (kind === versitygw) expect(await put(store, 'killed', randomBytes(10))).toBe('created')
    })

    test('a missing bucket and wrong credentials are reported, and are permanent faults', async () => {
      const { settings } = server
      const noBucket = await faultOf(openS3Store({ ...settings, bucket: 'other' }))
      expect(noBucket).toMatchObject({
        kind: 'store',
        name: 's3://other/some/prefix/',
        code: 'NoSuchBucket',
        isTemporary: false,
      })
      if (kind !== versitygw) return
      const wrongCredentials = { accessKeyId: 'espalier', secretAccessKey: 'wrong' }
      const refused = await faultOf(openS3Store({ ...settings, credentials: wrongCredentials }))
      expect(refused).toMatchObject({ kind: 'store', code: 'SignatureDoesNotMatch', isTemporary: false })
    })
  })
}

async function* failing(): AsyncGenerator<Uint8Array> {
  yield randomBytes(10)
  throw new Error('the sender failed')
}

describe('an error response', () => {
  let server: Server
  let answers: { status: number; code: string }[] = []
  let count = 0
  beforeAll(async () => {
    server = createServer((request, response) => {
      request.resume()
      const { status, code } = answers[Math.min(count++, answers.length - 1)] ?? { status: 500, code: 'InternalError' }
      response.writeHead(status, { 'content-type': 'application/xml' })
      response.end(status < 300 ? '' : `<Error><Code>${code}</Code><Message>error of the test</Message></Error>`)
    })
    await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  })
  afterAll(() => void server.close())

  test.each([
    { status: 503, code: 'SlowDown', isTemporary: true },
    { status: 500, code: 'InternalError', isTemporary: true },
    { status: 403, code: 'AccessDenied', isTemporary: false },
    { status: 501, code: 'NotImplemented', isTemporary: false },
  ])('$status $code: `isTemporary` is $isTemporary', async ({ status, code, isTemporary }) => {
    answers = [{ status, code }]
    count = 0
    const { port } = server.address() as AddressInfo
    const credentials = { accessKeyId: 'a', secretAccessKey: 'b' }
    const settings = { bucket: 'x', prefix: '', region: 'us-east-1', pathStyle: true, credentials }
    const fault = await faultOf(openS3Store({ ...settings, endpoint: `http://127.0.0.1:${port}` }))
    expect(fault).toMatchObject({ kind: 'store', name: 's3://x/', code, isTemporary })
    if (isTemporary && status === 503) expect(count).toBeGreaterThan(1)
  })
})
