import { once } from 'node:events'
import { mkdir, mkdtemp, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect as connectTls } from 'node:tls'
import pino from 'pino'
import { expect, onTestFinished, test } from 'vitest'
import { createDenialAgent } from '../gateway/denial/denial.ts'
import { testCertificate } from '../gateway/testing/certificate.ts'
import { listen, until } from '../gateway/testing/sockets.ts'
import { type Certificate, followCertificate, readCertificate } from './certificate.ts'

const [first, second] = [testCertificate('first.test'), testCertificate('second.test')]

/** A directory as kubelet mounts a Secret: its files are links through one link, and an update replaces that link. */
async function mounted() {
  const directory = await mkdtemp(join(tmpdir(), 'espalier-certificate-'))
  onTestFinished(() => rm(directory, { recursive: true }))
  let version = 0
  const swap = async (certificate: Partial<Certificate>) => {
    const name = `..${++version}`
    await mkdir(join(directory, name))
    if (certificate.cert !== undefined) await writeFile(join(directory, name, 'tls.crt'), certificate.cert)
    if (certificate.key !== undefined) await writeFile(join(directory, name, 'tls.key'), certificate.key)
    await symlink(name, join(directory, '..next'))
    await rename(join(directory, '..next'), join(directory, '..data'))
  }
  await swap(first)
  for (const file of ['tls.crt', 'tls.key']) await symlink(join('..data', file), join(directory, file))
  return { files: { cert: join(directory, 'tls.crt'), key: join(directory, 'tls.key') }, swap }
}

async function follow() {
  const { files, swap } = await mounted()
  const agent = createDenialAgent({ certificate: first, now: Date.now })
  const warnings: string[] = []
  const logger = pino({ level: 'warn' }, { write: (line: string) => void warnings.push(line) })
  const current = await readCertificate(files)
  const following = followCertificate({ files, current, use: agent.setCertificate, intervalMs: 10, logger })
  const { server, port } = await listen('127.0.0.1', socket =>
    agent.refuse(socket, '127.0.0.1', { code: '28000', message: 'no' }),
  )
  onTestFinished(() => {
    following.stop()
    agent.close()
    server.close()
  })
  const shown = async (): Promise<string> => {
    const socket = connectTls({ host: '127.0.0.1', port, rejectUnauthorized: false, ALPNProtocols: ['postgresql'] })
    onTestFinished(() => void socket.destroy())
    await once(socket, 'secureConnect')
    return socket.getPeerCertificate().subjectaltname ?? ''
  }
  return { swap, shown, warnings }
}

test('a renewed certificate is used without a restart', async () => {
  const { swap, shown } = await follow()
  expect(await shown()).toBe('DNS:first.test')
  await swap(second)
  await until('the new certificate is shown', async () => (await shown()) === 'DNS:second.test')
})

test('a mismatched pair is ignored and logged once without its key, and a later valid pair is used', async () => {
  const { swap, shown, warnings } = await follow()
  await swap({ cert: second.cert, key: first.key })
  await until('the mismatched pair is logged', () => warnings.length > 0)
  expect(await shown()).toBe('DNS:first.test')
  // A reader that opens the files before and after the update also gets a mismatched pair.
  await swap({ cert: 'garbage', key: first.key })
  await until('the second mismatched pair is logged', () => warnings.length > 1)
  expect(await shown()).toBe('DNS:first.test')
  expect(warnings.join()).not.toContain('PRIVATE')
  await swap(second)
  await until('the new certificate is shown', async () => (await shown()) === 'DNS:second.test')
})

test('intermediate certificates may be in a separate file', async () => {
  const { files } = await mounted()
  const { cert, key } = await readCertificate({ ...files, chain: files.cert })
  expect([cert.split('BEGIN CERTIFICATE').length, key]).toEqual([3, first.key])
})

test('a missing file keeps the previous certificate', async () => {
  const { swap, shown, warnings } = await follow()
  await swap({ cert: second.cert })
  await until('the missing file is logged', () => warnings.length > 0)
  expect(await shown()).toBe('DNS:first.test')
})
