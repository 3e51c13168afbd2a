import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pino from 'pino'
import { expect, onTestFinished, test } from 'vitest'
import { testCertificate } from '../testing/certificate.ts'
import { until } from '../testing/sockets.ts'
import { followCertificateFiles } from './certificate-files.ts'
import type { Certificates } from './certificates.ts'

test('certificates of regions are reloaded when they change; a mismatched pair is not used', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'espalier-certificates-'))
  const write = async (region: string, { cert, key }: { cert: string; key: string }) => {
    await writeFile(join(directory, `${region}.crt`), cert)
    await writeFile(join(directory, `${region}.key`), key)
  }
  const seen: Certificates[] = []
  const following = followCertificateFiles({
    ...{ directory, intervalMs: 10, logger: pino({ level: 'silent' }) },
    use: certificates => seen.push(certificates),
  })
  onTestFinished(async () => {
    following.stop()
    await rm(directory, { recursive: true })
  })
  const latest = () => seen.at(-1) ?? new Map()
  await until('the empty directory is read', () => seen.length === 1)
  expect(latest().size).toBe(0)

  const one = testCertificate('*.one.test')
  await write('one', one)
  await until('the certificate one is used', () => latest().get('one')?.cert === one.cert)
  const before = latest().get('one')
  await write('two', { cert: one.cert, key: testCertificate('*.two.test').key })
  await write('three-3', testCertificate('*.three.test'))
  await until('the certificate three-3 is used', () => latest().has('three-3'))
  expect([...latest().keys()].sort()).toEqual(['one', 'three-3'])
  expect(latest().get('one')).toBe(before)
  await writeFile(join(directory, 'one.crt'), 'half written')
  await rm(join(directory, 'three-3.crt'))
  await until('the certificate three-3 is no longer used', () => !latest().has('three-3'))
  expect(latest().get('one')).toBe(before)
})
