import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { kindConfiguration } from './configuration.ts'
import { portsFrom } from './ports.ts'

const ports = portsFrom(30_000)

describe('configuration of the cluster', () => {
  test('every port leads to the same port, from this machine alone', () => {
    for (const flavour of ['stock', 'self-made'] as const) {
      const [node] = parse(kindConfiguration(flavour, ports)).nodes
      expect(node.extraPortMappings).toHaveLength(23)
      for (const { containerPort, hostPort, listenAddress } of node.extraPortMappings) {
        expect([hostPort, listenAddress]).toEqual([containerPort, '127.0.0.1'])
      }
    }
  })

  test('a stock node keeps what it came with', () => {
    const stock = parse(kindConfiguration('stock', ports))
    expect(stock.networking).not.toHaveProperty('disableDefaultCNI')
    expect(stock).not.toHaveProperty('kubeadmConfigPatches')
    expect(parse(kindConfiguration('self-made', ports)).networking.disableDefaultCNI).toBe(true)
  })
})
