/** Services select the primary by its role label. Pods from before role labels are selected as before. */
import { describe, expect, test } from 'vitest'
import { labels } from '../../../crds/index.ts'
import { podSettings } from '../../pod-settings.ts'
import { beforeRoles, type Given, reconciledDatabase } from '../../testing/reconciled-database.ts'
import type { RestartsOf } from './plan/restart-annotations.ts'

const { children, assessmentOf, actionsOf, observedOf } = reconciledDatabase()
const before = beforeRoles(children)
const budgeted = { podSettings: podSettings.parse({ disruptionBudget: true }) }
/** The selectors of Service and disruption budget, and the labels of new pods. */
const rolesIn = (given: Given, restarts?: RestartsOf) => {
  const { desired } = assessmentOf({ ...given, rest: { ...budgeted, ...given.rest } }, restarts)
  const roles = [
    desired.service.spec?.selector,
    desired.disruptionBudget?.spec?.selector?.matchLabels,
    desired.statefulSet?.spec?.template.metadata?.labels,
  ]
  return roles.map(restartAnnotations => restartAnnotations?.[labels.role])
}
const restarted: RestartsOf = () => ({
  restartAnnotations: { restart: 'r', maintenance: undefined },
  isUnsure: false,
  isGivenUp: false,
})

describe('the role of a member', () => {
  test('is a label of new pods, and the Service selects by it', () => {
    expect(rolesIn({})).toEqual(['primary', 'primary', 'primary'])
    expect(rolesIn({ children: { statefulSet: undefined, pod: undefined }, pod: undefined })).toEqual([
      ...['primary', 'primary', 'primary'],
    ])
  })
  test('is not added to a running pod after an upgrade, and the Service does not select by it', () => {
    expect(rolesIn({ children: before })).toEqual([undefined, undefined, undefined])
    const actions = actionsOf({ children: before })
    expect(actions.filter(action => action.do === 'repair-pod')).toEqual([])
  })
  test('is added at the next restart, to template and pod, before the Service selects by it', () => {
    expect(rolesIn({ children: before }, restarted)).toEqual([undefined, undefined, 'primary'])
    const { statefulSet } = children
    expect(rolesIn({ children: { ...before, statefulSet } })).toEqual([undefined, undefined, 'primary'])
    expect(actionsOf({ children: { ...before, statefulSet } })).toContainEqual(
      expect.objectContaining({ do: 'repair-pod', labels: { [labels.role]: 'primary' } }),
    )
    expect(rolesIn({ children: { service: before.service } })).toEqual(['primary', 'primary', 'primary'])
  })
  test('does not change the selector while the Service still routes to another incarnation', () => {
    const { service } = before
    const selector = { ...service.spec?.selector, [labels.incarnation]: '7' }
    const elsewhere = { ...service, spec: { ...service.spec, selector } }
    const closed: Given = { children: { service: elsewhere }, answer: { closed: { inherited: 0 } } }
    const { spec } = assessmentOf(closed).desired.service
    expect(spec?.selector).toEqual(selector)
    expect(observedOf(closed).incarnation).not.toBe(7)
  })
})
