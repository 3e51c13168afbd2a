/** The plan of a serving member, and of a restore candidate beside it. */
import { describe, expect, test } from 'vitest'
import { nothingServes, planEndpoint, prerequisitesOf } from '../../endpoint/plan/index.ts'
import { type Given, reconciledDatabase } from '../../testing/reconciled-database.ts'
import type { Action } from '../../workload/actions.ts'
import { noRestarts } from '../pod/plan/restart-annotations.ts'
import type { VolumeFacts } from '../storage/persistent-volume.ts'
import { planMember } from './index.ts'

const { owner, now, children, observedOf } = reconciledDatabase()
const bound: VolumeFacts = {
  ...{ name: 'pv', uid: 'pv-uid', isTerminating: false, isRetained: false, policyBefore: undefined, isBound: true },
  ...{ claim: undefined, claimUid: children.claim.metadata.uid, isLabelled: false, accessModes: ['ReadWriteOnce'] },
  ...{ capacity: '1Gi', storageClass: 'fast', isProvisioned: true },
}
const empty: Given = {
  status: { volume: undefined, size: undefined },
  children: Object.fromEntries(Object.keys(children).map(name => [name, undefined])),
  pod: undefined,
  postgres: undefined,
  route: undefined,
  rest: { credentials: { state: 'absent' }, certificate: { state: 'absent' } },
}
const short = (action: Action): string => ('kind' in action ? `${action.do} ${action.kind}` : action.do)
const memberOf = (given: Given, protectsVolume = true): string[] => {
  const observed = observedOf(given)
  const needs = { ...prerequisitesOf(observed), restartsOf: noRestarts, role: 'primary' as const, protectsVolume }
  return planMember(observed, owner, now, needs).actions.map(short)
}
const endpointOf = (given: Given): string[] => planEndpoint(observedOf(given), owner, nothingServes).actions.map(short)

test('a member creates its claim and configuration, and no object of the endpoint', () => {
  expect(memberOf(empty)).toEqual(['create-claim', 'apply ConfigMap'])
})

test('an endpoint creates its Secrets, Service, network policy and route, and no object of a member', () => {
  expect(endpointOf(empty)).toEqual([
    ...['mint-credentials', 'issue-certificate', 'apply Service', 'apply NetworkPolicy', 'claim-port'],
  ])
})

describe('the StatefulSet of a member', () => {
  const { statefulSet: _, ...mounted } = children
  const without = (name: keyof typeof children): Given => ({
    children: { ...mounted, statefulSet: undefined, [name]: undefined },
    pod: undefined,
  })
  test('is created once all objects that its pod mounts exist', () => {
    expect(memberOf(without('statefulSet'))).toEqual(['apply StatefulSet'])
  })
  test.each(['certificate', 'networkPolicy'] as const)('is not created before the %s of the endpoint', name => {
    expect(memberOf(without(name))).toEqual([])
  })
})

test('a second member has objects with its own names, and its StatefulSet selects only its own pod', () => {
  const unsettled = observedOf({ pod: undefined, children: { statefulSet: undefined } })
  const needs = {
    ...prerequisitesOf(unsettled),
    restartsOf: noRestarts,
    role: 'primary' as const,
    protectsVolume: true,
  }
  const [first, second] = [0, 1].map(number => planMember({ ...unsettled, number }, owner, now, needs).desired)
  const namesOf = (desired: typeof first) =>
    [desired?.claim, desired?.configuration, desired?.statefulSet].map(draft => draft?.metadata.name)
  const base = namesOf(first).at(-1)
  expect(namesOf(first)).toEqual([`${base}-data`, `${base}-config`, base])
  expect(namesOf(second)).toEqual([`${base}-m1-data`, `${base}-m1-config`, `${base}-m1`])
  expect(second?.statefulSet?.spec?.selector.matchLabels).toEqual({
    ...first?.statefulSet?.spec?.selector.matchLabels,
    'espalier.dev/member': '1',
  })
  const { volumes = [] } = second?.statefulSet?.spec?.template.spec ?? {}
  expect(volumes).toContainEqual({ name: 'data', persistentVolumeClaim: { claimName: `${base}-m1-data` } })
  expect(JSON.parse(second?.configuration?.data?.['instance.json'] ?? '')).toMatchObject({ member: 1 })
  expect(JSON.parse(first?.configuration?.data?.['instance.json'] ?? '')).not.toHaveProperty('member')
})

test("the volume of a candidate is not protected; the serving member's volume is", () => {
  const unlabelled: Given = {
    status: { volume: undefined },
    rest: { volumes: { bound, recorded: undefined, copy: undefined } },
  }
  expect(memberOf(unlabelled)).toContain('change-volume')
  expect(memberOf(unlabelled, false)).not.toContain('change-volume')
})
