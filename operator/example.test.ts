import { expect, test } from 'vitest'
import { hasCondition, useInstallation } from './testing/fixture.ts'

const it = useInstallation() // opens a store with fakes and starts an operator, once for the file

test('a database whose volume cannot grow keeps its size', async () => {
  await it.create('ledger') // resolves when the database is available
  it.workload().volumes.refusal = 'exceeded quota: storage'
  const database = await it.database('ledger')
  if (database === undefined) throw new Error('there is no database')
  await it.cluster().replace('ManagedDatabase', {
    ...database,
    spec: { ...database.spec, size: { name: 'large', version: 1 } },
  })
  const refused = await it.when('ledger', hasCondition('SizeApplied', 'GrowthRefused'))
  expect(refused.status?.size?.name).toBe('small')
})
