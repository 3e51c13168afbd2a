/** How conditions report an action's problem. */
import { describe, expect, test } from 'vitest'
import type { Condition } from '../../crds/index.ts'
import { conditionsAfter, type Finding, no, yes } from '../objects/conditions.ts'
import type { InstanceCondition, InstanceFindings } from '../workload/plan/findings.ts'
import { type Problem, withProblems } from './problems.ts'

const types = {
  all: ['Ready', 'Progressing', 'VolumeReady', 'EndpointReady', 'ChildrenApplied'] as InstanceCondition[],
  passing: new Set<InstanceCondition>(['ChildrenApplied']),
}
const next = (before: readonly Condition[], findings: InstanceFindings) =>
  conditionsAfter(types, before, findings, undefined, 0)
const conditionsOf = (findings: InstanceFindings) => next([], findings)
const withFound = (before: InstanceFindings, ...problems: Problem[]) =>
  withProblems(conditionsOf(before), problems, next)

const refused: Problem = { condition: 'Progressing', reason: 'Refused', message: 'it must not be' }
const full: Problem = { condition: 'VolumeReady', reason: 'DiskFull', message: 'no room' }
const noPort: Problem = { condition: 'EndpointReady', reason: 'PortRangeExhausted', message: 'all taken' }
const findingOf = (finding: (reason: string, message: string) => Finding, { reason, message }: Problem) =>
  finding(reason, message)

const serving = yes('Serving', '')
const completed = no('Completed', '')
const starting = yes('Starting', '')
const notRunning = no('NotRunning', '')

describe('a problem', () => {
  test.each<[string, InstanceFindings, Problem[], InstanceFindings]>([
    [
      'with the complete work is reported in the running operation',
      { Ready: notRunning, Progressing: starting },
      [refused],
      { Ready: findingOf(no, refused), Progressing: findingOf(yes, refused) },
    ],
    [
      'is not reported in an ended operation',
      { Ready: notRunning, Progressing: completed },
      [refused],
      { Ready: findingOf(no, refused), Progressing: completed },
    ],
    [
      'with an object of a serving database, without an operation, is reported in ChildrenApplied',
      { Ready: serving, Progressing: completed },
      [refused],
      { Ready: serving, Progressing: completed, ChildrenApplied: findingOf(no, refused) },
    ],
    [
      'does not replace a transient condition',
      { Ready: serving, Progressing: starting, ChildrenApplied: no('Contested', '') },
      [refused],
      { Ready: serving, Progressing: findingOf(yes, refused), ChildrenApplied: no('Contested', '') },
    ],
    [
      "with a part is reported in the part's condition, even if the database serves",
      { Ready: serving, Progressing: completed, VolumeReady: yes('Bound', '') },
      [full],
      { Ready: serving, Progressing: completed, VolumeReady: findingOf(no, full) },
    ],
    [
      'with a part delays the running operation',
      { Ready: serving, Progressing: starting },
      [full],
      { Ready: serving, Progressing: findingOf(yes, full), VolumeReady: findingOf(no, full) },
    ],
    [
      'before the first conditions is the only condition',
      {},
      [full],
      { Ready: findingOf(no, full), VolumeReady: findingOf(no, full) },
    ],
    [
      "beside another is reported with it; the reason is the last problem's",
      { Ready: notRunning, Progressing: starting, VolumeReady: yes('Bound', '') },
      [full, noPort],
      {
        ...{ Ready: findingOf(no, noPort), Progressing: findingOf(yes, noPort) },
        ...{ VolumeReady: findingOf(no, full), EndpointReady: findingOf(no, noPort) },
      },
    ],
    [
      'if there is none, no condition changes',
      { Ready: serving, Progressing: starting },
      [],
      { Ready: serving, Progressing: starting },
    ],
  ])('%s', (_, before, problems, after) => {
    expect(withFound(before, ...problems)).toEqual(conditionsOf(after))
  })
})
