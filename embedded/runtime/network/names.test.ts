import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { temporaryDirectory, until } from '../testing/runtime.ts'
import type { Endpoints } from './endpoints.ts'
import { createNamesFile } from './names.ts'

const endpoints = (namespace: string, service: string, host?: string, port = 5432): Endpoints => ({
  namespace,
  service,
  ports: host === undefined ? [] : [{ port, addresses: [{ host, port }] }],
})

/** Each write replaces the file, so a new inode shows that a write happened. */
test('the file has the namespaces whose pods read it, and is written only when their names change', async () => {
  const path = join(temporaryDirectory(), 'names')
  const file = createNamesFile(path, error => expect.unreachable(String(error)))
  const text = () => readFileSync(path, 'utf8')
  file.put([endpoints('tenant', 'db-1', '127.9.1.1'), endpoints('other', 'db-2', '127.9.1.2')])
  file.use('tenant')
  await until(() => statSync(path, { throwIfNoEntry: false }) !== undefined)
  expect(text()).toBe('127.9.1.1 db-1.tenant.svc\n')
  const { ino } = statSync(path)

  for (let round = 0; round < 20; round++) {
    file.put([endpoints('other', 'db-2', `127.9.2.${round}`)])
    // A changed port does not change a name.
    file.put([endpoints('tenant', 'db-1', '127.9.1.1', 5433 + round)])
  }
  await new Promise(resolve => setTimeout(resolve, 150))
  expect(statSync(path).ino).toBe(ino)

  file.use('other')
  await until(() => text().includes('db-2'))
  expect(text()).toBe('127.9.1.1 db-1.tenant.svc\n127.9.2.19 db-2.other.svc\n')
  file.put([endpoints('tenant', 'db-1')])
  await until(() => text() === '127.9.2.19 db-2.other.svc\n')
})

test('many successive changes cause few writes', async () => {
  const path = join(temporaryDirectory(), 'names')
  const file = createNamesFile(path, error => expect.unreachable(String(error)))
  file.use('tenant')
  const written = new Set<number>()
  for (let round = 0; round < 50; round++) {
    file.put([endpoints('tenant', 'db-1', `127.9.1.${round}`)])
    await new Promise(resolve => setTimeout(resolve, 5))
    const found = statSync(path, { throwIfNoEntry: false })
    if (found !== undefined) written.add(found.mtimeMs)
  }
  await until(() => readFileSync(path, 'utf8') === '127.9.1.49 db-1.tenant.svc\n')
  expect(written.size).toBeLessThan(15)
})
