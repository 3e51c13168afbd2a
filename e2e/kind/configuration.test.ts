import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { kindConfiguration } from './configuration.ts'
import { portsFrom } from './ports.ts'

const ports = portsFrom(30_000)

describe('configuration of the cluster', () => {
  test('every port maps to the same port, from this machine only', () => {
    for (const flavour of ['stock', 'self-made'] as const) {
      const [node] = parse(kindConfiguration(flavour, ports)).nodes
      expect(node.extraPortMappings).toHaveLength(23)
      for (const { containerPort, hostPort, listenAddress } of node.extraPortMappings) {
        expect([hostPort, listenAddress]).toEqual([containerPort, '127.0.0.1'])
      }
    }
  })

  test('workers publish no ports of this machine', () => {
    const nodes = parse(kindConfiguration('self-made', ports, 2)).nodes
    expect(nodes.map(({ role }: { role: string }) => role)).toEqual(['control-plane', 'worker', 'worker'])
    expect(nodes[1]).not.toHaveProperty('extraPortMappings')
  })

  test('a stock node keeps its own settings', () => {
    const stock = parse(kindConfiguration('stock', ports))
    expect(stock.networking).not.toHaveProperty('disableDefaultCNI')
    expect(stock).not.toHaveProperty('kubeadmConfigPatches')
    expect(parse(kindConfiguration('self-made', ports)).networking.disableDefaultCNI).toBe(true)
  })
})
