/** The operator reverts other managers' changes to a running pod, without a restart. */
import { expect, test } from 'vitest'
import { type Given, reconciledDatabase } from '../../../testing/reconciled-database.ts'
import { restartAnnotation, sizeAnnotation } from '../stateful-set.ts'

const { observedOf, actionsOf } = reconciledDatabase()
const { statefulSet, pod } = observedOf().children
if (statefulSet === undefined || pod === undefined) throw new Error('the database does not serve')
const wanted = statefulSet.spec?.template.metadata?.annotations?.[sizeAnnotation]

/** A pod created from a revision, whose size annotation another manager has changed. */
const edited = (revision: string | undefined, status: object): Given => ({
  pod: { size: 'huge/9', revision },
  children: {
    pod: {
      ...pod,
      metadata: {
        ...pod.metadata,
        annotations: { ...pod.metadata.annotations, [sizeAnnotation]: 'huge/9', theirs: 'x' },
      },
    },
    statefulSet: {
      ...statefulSet,
      metadata: { ...statefulSet.metadata, generation: 3 },
      status: { replicas: 1, observedGeneration: 3, updateRevision: 'one', ...status },
    },
  },
})
const doneTo = (given: Given) =>
  actionsOf(given).filter(action => action.do === 'repair-pod' || (action.do === 'delete' && action.kind === 'Pod'))

test('an annotation that another manager changed is restored, and the pod is not restarted', () => {
  expect(wanted).toBeDefined()
  expect(doneTo(edited('one', {}))).toMatchObject([
    { do: 'repair-pod', annotations: { [sizeAnnotation]: wanted }, labels: {}, images: {} },
  ])
})

test.each([
  ['created from an earlier template', edited('zero', {})],
  ['of an unknown template', edited(undefined, { updateRevision: undefined })],
])('a pod %s is restarted if it differs from the request', (_, given) => {
  expect(doneTo(given)).toMatchObject([{ do: 'delete' }])
})

test('a pod is not repaired if its StatefulSet is not observed yet', () => {
  expect(doneTo(edited('one', { observedGeneration: 2 }))).toEqual([])
})

test('annotations that the template does not have are kept', () => {
  const given = edited('one', {})
  const objectAnnotations = { ...pod.metadata.annotations, theirs: 'x', [restartAnnotation]: 'never' }
  const pods = { ...pod, metadata: { ...pod.metadata, annotations: objectAnnotations } }
  expect(doneTo({ ...given, pod: { revision: 'one' }, children: { ...given.children, pod: pods } })).toEqual([])
})
