import { afterEach, describe, expect, test } from 'vitest'
import type { Operator } from '../index.ts'
import {
  databaseDraft,
  databaseWhen,
  type Installation,
  openInstallation,
  startTestOperator,
} from '../testing/installation.ts'

let installation: Installation
let operator: Operator

afterEach(async () => {
  await operator.stop()
  await installation.close()
})

describe('the controller', () => {
  test('creates a database', async () => {
    installation = await openInstallation()
    operator = await startTestOperator(installation)
    const { cluster } = installation
    await cluster.create('ManagedDatabase', databaseDraft('one'))
    const database = await databaseWhen(cluster, 'one', found => found?.status?.phase === 'available')
    expect(database?.status?.endpoint?.port).toBe(20000)
  })
})
