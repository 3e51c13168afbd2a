/**
 * `db-pool-automatic-recovery` off: the service exits when it loses its database, so that the supervisor can restart
 * the service.
 */

import { pino } from 'pino'
import { expect, test } from 'vitest'
import { startPostgres } from '../testing/postgres.ts'
import { startRest } from './index.ts'

test.each([
  ['on', true],
  ['off', false],
] as const)('%s: after the service loses its database, it exits or waits', async (_, recovers) => {
  const postgres = await startPostgres('17')
  let lost = 0
  const file = [
    `db-uri = "${postgres.uri('postgres')}"`,
    'server-host = "127.0.0.1"',
    'server-port = 0',
    `db-pool-automatic-recovery = ${recovers}`,
  ].join('\n')
  const service = await startRest({
    sources: () => ({ file, environment: {}, readFile: () => '' }),
    logger: pino({ level: 'silent' }),
    onLost: () => lost++,
  })
  try {
    await expect.poll(() => service.isReady(), { timeout: 20_000 }).toBe(true)
    await postgres.crash()
    await expect.poll(() => service.isReady(), { timeout: 20_000 }).toBe(false)
    expect(lost > 0).toBe(!recovers)
  } finally {
    await service.stop()
    await postgres.stop()
  }
})
