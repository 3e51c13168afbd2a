import { describe, expect, test } from 'vitest'
import type { PersistentVolume } from '../../../cluster/index.ts'
import type { Region, Size } from '../../../crds/index.ts'
import type { Owner } from '../../objects/ownership.ts'
import { regionDraft, sizeDraft } from '../../testing/installation.ts'
import { claimDraft, hasRequest, reboundClaimDraft, repairedClaim } from './claim.ts'
import { trimVolume, volumeFacts } from './persistent-volume.ts'

const owner: Owner = {
  kind: 'ManagedDatabase',
  namespace: 'databases',
  name: 'one',
  uid: 'uid',
  id: '5e1d9a52-3f0e-4b43-9c0f-0a1b2c3d4e5f',
  hostLabel: 'one-5e1d9a52',
}

describe('the new claim for a volume whose claim was deleted', () => {
  const claimFor = (storageClass: object) => {
    const volume: PersistentVolume = {
      apiVersion: 'v1',
      kind: 'PersistentVolume',
      metadata: { name: 'pv', uid: 'pv-uid' },
      spec: { ...storageClass, accessModes: ['ReadWriteOnce'], capacity: { storage: '3Gi' } },
    }
    return reboundClaimDraft({ owner, incarnation: 1, number: 0 }, '7', volumeFacts(trimVolume(volume), owner)).spec
  }

  test.each([
    ['names the class of the volume', { storageClassName: 'fast' }, 'fast'],
    ['has the empty class if the volume has none, so that the cluster sets no default', {}, ''],
    ['has the empty class if the volume has the empty class', { storageClassName: '' }, ''],
  ])('%s', (_what, storageClass, named) => {
    expect(claimFor(storageClass)).toEqual({
      volumeName: 'pv',
      accessModes: ['ReadWriteOnce'],
      storageClassName: named,
      resources: { requests: { storage: '3Gi' } },
    })
  })
})

test('the new claim for a volume that a driver created without a class names no class', () => {
  const volume: PersistentVolume = {
    apiVersion: 'v1',
    kind: 'PersistentVolume',
    metadata: { name: 'pv', annotations: { 'pv.kubernetes.io/provisioned-by': 'driver' } },
    spec: { accessModes: ['ReadWriteOnce'], capacity: { storage: '3Gi' } },
  }
  const { spec } = reboundClaimDraft({ owner, incarnation: 1, number: 0 }, '7', volumeFacts(trimVolume(volume), owner))
  expect(Object.keys(spec ?? {})).not.toContain('storageClassName')
})

describe('a claim', () => {
  const shapeOf = (storageSize: string) => (sizeDraft('any', { storageSize }) as Size).spec.shape // a draft with its spec
  const regionOf = (storageClass: string | undefined) => {
    const region = regionDraft() as Region // a draft with its spec
    return { ...region, spec: { ...region.spec, ...(storageClass === undefined ? {} : { storageClass }) } }
  }
  const made = (storage: string, storageClass: string | undefined) =>
    claimDraft({ owner, incarnation: 1, number: 0 }, shapeOf(storage), regionOf(storageClass), {
      systemIdentifier: undefined,
    })
  /** The claim as the cluster returns it: with its default class, or with fields that an admission webhook added. */
  const admitted = (storage: string, storageClass: string | undefined, put: object) => {
    const draft = made(storage, storageClass)
    return { ...draft, spec: { ...draft.spec, ...put } }
  }
  const ofOlder = (storage: string, storageClassName: string | undefined) => {
    const draft = made(storage, storageClassName)
    return { ...draft, metadata: { ...draft.metadata, annotations: {} } }
  }
  const webhook = { storageClassName: 'theirs', resources: { requests: { storage: '4Gi' } } }

  test.each([
    ['the same request', admitted('1Gi', undefined, {}), '1024Mi', undefined, true],
    ['a larger request', admitted('1Gi', undefined, {}), '2Gi', undefined, false],
    ['a smaller request', admitted('2Gi', undefined, {}), '1Gi', undefined, false],
    ['the default class, which the cluster added', admitted('1Gi', undefined, webhook), '1Gi', undefined, true],
    ['another class than the requested one', admitted('1Gi', 'slow', {}), '1Gi', 'fast', false],
    ['no class, although the claim has a class', admitted('1Gi', 'slow', {}), '1Gi', undefined, false],
    ['the original request, whatever a webhook changed', admitted('1Gi', 'fast', webhook), '1Gi', 'fast', true],
    ['the original request of an older operator', ofOlder('1Gi', 'fast'), '1Gi', 'fast', true],
    ['the default class, in a claim of an older operator', ofOlder('1Gi', 'fast'), '1Gi', undefined, true],
    ['another class, in a claim of an older operator', ofOlder('1Gi', 'slow'), '1Gi', 'fast', false],
    ['a larger request, in a claim of an older operator', ofOlder('1Gi', undefined), '2Gi', undefined, false],
  ])('is compared with the requested storage and class: %s', (_what, claim, storage, storageClass, is) => {
    expect(
      hasRequest(
        { ...claim, apiVersion: 'v1', kind: 'PersistentVolumeClaim' },
        shapeOf(storage),
        regionOf(storageClass),
      ),
    ).toBe(is)
  })

  test('of an older operator is not updated only to add the annotation with its request', () => {
    const { annotations: _, ...metadata } = made('1Gi', undefined).metadata
    const before = {
      ...made('1Gi', undefined),
      metadata: {
        ...metadata,
        annotations: { 'espalier.dev/owner-uid': 'uid', 'espalier.dev/owner': 'databases/one' },
      },
    }
    expect(
      repairedClaim({ ...before, apiVersion: 'v1', kind: 'PersistentVolumeClaim' }, made('2Gi', 'fast')),
    ).toBeUndefined()
  })

  test('of a copy names its node when it is created, and is not changed later', () => {
    const content = { systemIdentifier: undefined, node: 'one' }
    const draft = claimDraft({ owner, incarnation: 1, number: 0 }, shapeOf('1Gi'), regionOf(undefined), content)
    expect(draft.metadata.annotations).toMatchObject({ 'volume.kubernetes.io/selected-node': 'one' })
    const { 'volume.kubernetes.io/selected-node': _, ...annotations } = draft.metadata.annotations ?? {}
    const refused = { ...draft, metadata: { ...draft.metadata, annotations } }
    expect(
      repairedClaim({ ...refused, apiVersion: 'v1', kind: 'PersistentVolumeClaim' }, made('1Gi', undefined)),
    ).toBeUndefined()
  })
})
