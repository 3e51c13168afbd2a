/** What the operator counts of databases and their services. */
import { expect, test } from 'vitest'
import { createMetrics } from '../../controller/index.ts'
import type { ManagedDatabase } from '../../crds/index.ts'
import { createDatabaseMetrics } from './metrics.ts'

const database = (states: Record<string, string>, isConfigured = true): ManagedDatabase => {
  const services = Object.entries(states).map(([serviceType, state]) => ({ serviceType, serviceId: '00000001', state }))
  const conditions = [{ type: 'ServicesConfigured', status: isConfigured ? 'True' : 'False', reason: 'r', message: '' }]
  return { metadata: {}, spec: {}, status: { phase: 'available', services, conditions } } as never
}

test('services are counted by type and state, also those in no state', async () => {
  const metrics = createMetrics()
  let databases = [database({ rest: 'running', mcp: 'failed' }), database({ rest: 'running' }, false), database({})]
  const counted = createDatabaseMetrics(metrics, () => databases)
  const page = () => metrics.registry.metrics()
  expect(await page()).toContain('espalier_services{type="rest",state="running"} 2')
  expect(await page()).toContain('espalier_services{type="mcp",state="failed"} 1')
  expect(await page()).toContain('espalier_services{type="rag",state="failed"} 0')
  expect(await page()).toContain('espalier_databases_with_misconfigured_services 1')
  databases = []
  expect(await page()).toContain('espalier_services{type="rest",state="running"} 0')
  counted.stop()
  expect(await page()).not.toContain('espalier_services')
})
