import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { componentImages } from './component-images.ts'
import { root } from './settings.ts'

const listed = [
  'registry.k8s.io/kube-apiserver:v1.36.3',
  'registry.k8s.io/coredns/coredns:v1.14.2',
  'registry.k8s.io/pause:3.10.2',
  'registry.k8s.io/etcd:3.6.8-0',
]

test('images have the names that kubeadm expects', () => {
  const names = componentImages(listed).map(image => image.name)
  for (const name of listed) expect(names).toContain(name)
  expect(new Set(names).size).toBe(names.length)
})

test('a list that lacks a component is refused', () => {
  expect(() => componentImages(listed.slice(0, 3))).toThrow('kubeadm wants no etcd')
})

test("a cluster has the sidecars that the driver's chart names", () => {
  const values = readFileSync(join(root, 'charts/espalier-csi/values.yaml'), 'utf8')
  const sidecars = [...values.matchAll(/registry\.k8s\.io\/sig-storage\/\S+/g)].map(([name]) => name)
  expect(sidecars.length).toBeGreaterThan(1)
  expect(componentImages(listed).map(image => image.name)).toEqual(expect.arrayContaining(sidecars))
})
