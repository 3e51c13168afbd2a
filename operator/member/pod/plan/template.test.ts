/** The template and image from which a pod is created. Changes of a new release wait for a restart. */
import { describe, expect, test } from 'vitest'
import type { StatefulSet } from '../../../../cluster/index.ts'
import { labels } from '../../../../crds/index.ts'
import { type Given, reconciledDatabase } from '../../../testing/reconciled-database.ts'
import { imageAnnotation, restartAnnotation, sizeAnnotation, templateAnnotation } from '../stateful-set.ts'
import { walProbeAnnotation } from '../wal-probe.ts'
import { noRestarts, type RestartsOf } from './restart-annotations.ts'
import { referenceOf } from './template.ts'

type Spec = NonNullable<StatefulSet['spec']>
type Template = Spec['template']

const { children, observedOf, assessmentOf } = reconciledDatabase()
const { claim, statefulSet } = children
const live = statefulSet.spec as Spec
const { podSettings } = observedOf()
const at = '2026-01-01T00:00:00Z'
const digest = `sha256:${'a'.repeat(64)}`

/** Other chart values, which change a pod's template. */
const newer = { podSettings: { ...podSettings, priorityClassName: 'databases' } }
const setOf = (template: Partial<Template>, replicas = 1): StatefulSet => ({
  ...statefulSet,
  spec: { ...live, replicas, template: { ...live.template, ...template } },
})
const annotated = (changes: Record<string, string | undefined>): Template => ({
  ...live.template,
  metadata: {
    ...live.template.metadata,
    annotations: { ...live.template.metadata?.annotations, ...changes } as Record<string, string>,
  },
})
/** The template of the next pod. */
const templateFor = (given: Given, restarts: RestartsOf = noRestarts): Template => {
  const { spec } = assessmentOf({ ...given, rest: { ...newer, ...given.rest } }, restarts).desired.statefulSet ?? {}
  if (spec === undefined) throw new Error('the StatefulSet is missing')
  return spec.template
}
const imagesOf = ({ spec }: Template) =>
  [...(spec?.initContainers ?? []), ...(spec?.containers ?? [])].map(({ image }) => image)

test('containers of equal instances are equal, so that they are stored once', () => {
  const id = statefulSet.metadata.labels?.[labels.database]
  const { initContainers, containers } = templateFor({ status: { volume: undefined } }).spec ?? {}
  expect(containers).toHaveLength(2)
  expect(JSON.stringify([initContainers, containers])).not.toContain(id)
})

describe('a newer template', () => {
  const takes = (given: Given, restarts?: RestartsOf) =>
    templateFor(given, restarts).spec?.priorityClassName === 'databases'
  const requested: RestartsOf = () => ({
    restartAnnotations: { restart: 'r', maintenance: undefined },
    isUnsure: false,
    isGivenUp: false,
  })
  const due: RestartsOf = () => ({
    restartAnnotations: { restart: undefined, maintenance: 'm' },
    isUnsure: false,
    isGivenUp: false,
  })
  const stuck = { pod: { isStuck: true } }
  const going = { claim: { ...claim, metadata: { ...claim.metadata, deletionTimestamp: at } } }

  test.each<[string, Given, boolean, RestartsOf?]>([
    ['waits while Postgres runs', {}, false],
    ['waits while Postgres has crashed, or is starting', { pod: { address: undefined } }, false],
    ['waits while the pod terminates to move to another node', { pod: undefined }, false],
    ['is applied at the first start', { status: { volume: undefined } }, true],
    ['is applied by a suspension', { spec: { suspended: true } }, true],
    ['is applied by a resumption', { children: { statefulSet: setOf({}, 0) } }, true],
    ['is applied if the pod will not run by itself', stuck, true],
    [
      'is applied with another size',
      { children: { statefulSet: setOf(annotated({ [sizeAnnotation]: 'large-v1' })) } },
      true,
    ],
    ['is applied with a requested restart', {}, true, requested],
    ['is applied with a restart in a window', {}, true, due],
    [
      'waits if the restart in the window is done',
      { children: { statefulSet: setOf(annotated({ [restartAnnotation]: 'r' })) } },
      false,
      requested,
    ],
    ['waits if the pod must not be stopped', { ...stuck, children: going }, false],
  ])('%s', (_, given, is, restarts) => {
    expect(takes(given, restarts)).toBe(is)
  })

  test('that creates the same pod is applied at once', () => {
    const bare = annotated({ [walProbeAnnotation]: undefined })
    const template = (pods: object) => templateFor({ children: { statefulSet: setOf(bare) }, rest: pods })
    expect(template({ podSettings }).metadata?.annotations?.[walProbeAnnotation]).toBe('true')
    expect(template(newer).metadata?.annotations?.[walProbeAnnotation]).toBeUndefined()
  })
  test('is applied if there is no StatefulSet yet', () => {
    const { newestTemplate } = assessmentOf({ rest: newer }).desired
    const template = templateFor({ children: { statefulSet: undefined } })
    expect(template.metadata?.annotations?.[templateAnnotation]).toBe(newestTemplate)
    expect(newestTemplate).not.toBe(live.template.metadata?.annotations?.[templateAnnotation])
  })
})

describe('a template that is not replaced', () => {
  test("is applied unchanged, without the API server's defaults", () => {
    const creationTimestamp = at
    const present = { ...live.template, metadata: { ...live.template.metadata, creationTimestamp } }
    expect(templateFor({ children: { statefulSet: setOf(present) } })).toEqual(live.template)
  })
  test('of an older operator gets the annotation with its image', () => {
    const { [imageAnnotation]: image, ...others } = live.template.metadata?.annotations ?? {}
    const bare = { metadata: { annotations: others }, ...(live.template.spec ? { spec: live.template.spec } : {}) }
    const retained = templateFor({ children: { statefulSet: setOf({ metadata: { annotations: others } }) } })
    expect(retained).toEqual({ ...bare, metadata: { annotations: { ...others, [imageAnnotation]: image } } })
  })
})

describe('the configured image', () => {
  test('is read from the template, or else from its container', () => {
    expect(referenceOf(annotated({ [imageAnnotation]: 'postgres:17' }))).toBe('postgres:17')
    expect(referenceOf({ ...live.template, metadata: {} })).toBe('postgres:18')
    expect(referenceOf({ ...live.template, metadata: undefined })).toBe('postgres:18')
    expect([referenceOf({}), referenceOf(undefined)]).toEqual([undefined, undefined])
  })
})

describe('the image of a pod', () => {
  const pulled = { imageId: `docker.io/library/postgres@${digest}` }
  const pinned = `postgres:18@${digest}`.replace(':18', '')
  const of = (image: string): Partial<Template> => ({
    spec: {
      ...live.template.spec,
      containers: (live.template.spec?.containers ?? []).map(one => ({ ...one, image })),
      initContainers: (live.template.spec?.initContainers ?? []).map(one => ({ ...one, image })),
    } as NonNullable<Template['spec']>,
  })
  const made = { children: { statefulSet: setOf(of(pinned)) } }

  test.each<[string, Given, string]>([
    ['is the configured one initially', { children: { statefulSet: undefined } }, 'postgres:18'],
    ['is the configured one until a node has pulled it', { pod: undefined }, 'postgres:18'],
    ['is the configured one if its node reports no digest', { pod: { imageId: 'sha256:1' } }, 'postgres:18'],
    ['is the image that its node pulled, by digest', { pod: pulled }, pinned],
    ['keeps its digest', { ...made, pod: { imageId: `docker.io/library/postgres@sha256:${'b'.repeat(64)}` } }, pinned],
    ['keeps its digest without a pod', { ...made, pod: undefined }, pinned],
    ['is not read from a pod of another template', { pod: { ...pulled, template: 'other' } }, 'postgres:18'],
    ['keeps its digest with a newer template', { ...made, status: { volume: undefined } }, pinned],
    [
      'is another image after that image is configured and applied',
      { ...made, rest: { image: 'postgres:18.1' }, status: { volume: undefined } },
      'postgres:18.1',
    ],
    [
      'is unchanged if another image is configured but not applied yet',
      { ...made, rest: { image: 'postgres:18.1' } },
      pinned,
    ],
    ['is unchanged if no image is configured any more', { ...made, rest: { image: undefined } }, pinned],
  ])('%s', (_, given, image) => {
    expect(new Set(imagesOf(templateFor(given)))).toEqual(new Set([image]))
  })
  test('is set on all containers, and nothing else changes', () => {
    const template = templateFor({ pod: pulled })
    expect(template).toEqual({ ...live.template, ...of(pinned) })
    expect(imagesOf(template)).toEqual([pinned, pinned, pinned])
  })
  test('adds no init containers to a pod without them', () => {
    const { initContainers: _, ...spec } = live.template.spec as NonNullable<Template['spec']>
    expect(templateFor({ children: { statefulSet: setOf({ spec }) } }).spec).not.toHaveProperty('initContainers')
  })
})
