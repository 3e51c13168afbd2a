/** The hosts near which the pods of a service are scheduled. */
import { expect, test } from 'vitest'
import { childNames } from '../../crds/index.ts'
import { podSettings } from '../pod-settings.ts'
import { placementOfServices } from './placement.ts'

const id = '01a2b3c4-0000-7000-8000-000000000001'
const owner = { kind: 'ManagedDatabase', namespace: 'espalier-t-1', name: 'shop', id, uid: 'u' } as never
const plain = podSettings.parse({})
const required = {
  requiredDuringSchedulingIgnoredDuringExecution: {
    nodeSelectorTerms: [{ matchExpressions: [{ key: 'disk', operator: 'In', values: ['fast'] }] }],
  },
}
const bound = podSettings.parse({ affinity: { nodeAffinity: required } })
const on = (name: string) => ({
  ...{ weight: 100, preference: { matchFields: [{ key: 'metadata.name', operator: 'In', values: [name] }] } },
})

test('a service without hosts is placed as in earlier versions', () => {
  expect(placementOfServices(plain, owner, undefined)).not.toHaveProperty('affinity')
  expect(placementOfServices(plain, owner, [])).not.toHaveProperty('affinity')
  expect(placementOfServices(bound, owner, undefined).affinity).toEqual({ nodeAffinity: required })
})

test("a member is preferred by its pod's labels, which stay the same if the pod moves", () => {
  const term = {
    topologyKey: 'kubernetes.io/hostname',
    labelSelector: { matchLabels: { 'espalier.dev/database': id, 'espalier.dev/component': 'postgres' } },
  }
  const before = placementOfServices(bound, owner, [childNames.pod(id, 1)])
  expect(before.affinity).toEqual({
    nodeAffinity: required,
    podAffinity: { preferredDuringSchedulingIgnoredDuringExecution: [{ weight: 100, podAffinityTerm: term }] },
  })
  expect(placementOfServices(bound, owner, [childNames.pod(id, 2)])).toEqual(before)
})

test('nodes are preferred by name, and required nodes stay required', () => {
  const { affinity } = placementOfServices(bound, owner, ['node-a', 'node-b.example'])
  expect(affinity).toEqual({
    nodeAffinity: {
      ...required,
      preferredDuringSchedulingIgnoredDuringExecution: [on('node-a'), on('node-b.example')],
    },
  })
})
