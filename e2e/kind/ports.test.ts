import { describe, expect, test } from 'vitest'
import { everyPort, findPorts, gatewayPortCount } from './ports.ts'

describe('ports of a cluster', () => {
  test('are consecutive, and all free', async () => {
    const ports = await findPorts(async port => port > 30_100)
    const all = everyPort(ports)
    expect(all).toHaveLength(gatewayPortCount + 3)
    expect(new Set(all).size).toBe(all.length)
    expect(Math.min(...all)).toBeGreaterThan(30_100)
    expect(Math.max(...all) - Math.min(...all)).toBe(all.length - 1)
  })

  test('an error reports that no range is free', async () => {
    await expect(findPorts(async () => false)).rejects.toThrow(/no run of 23 free ports/)
  })
})
