/** What the conditions say of a problem that an action met. */
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
const told = (before: InstanceFindings, ...problems: Problem[]) => withProblems(conditionsOf(before), problems, next)

const refused: Problem = { condition: 'Progressing', reason: 'Refused', message: 'it must not be' }
const full: Problem = { condition: 'VolumeReady', reason: 'DiskFull', message: 'no room' }
const noPort: Problem = { condition: 'EndpointReady', reason: 'PortRangeExhausted', message: 'all taken' }
const said = (finding: (reason: string, message: string) => Finding, { reason, message }: Problem) =>
  finding(reason, message)

const serving = yes('Serving', '')
const completed = no('Completed', '')
const starting = yes('Starting', '')
const notRunning = no('NotRunning', '')

describe('a problem', () => {
  test.each<[string, InstanceFindings, Problem[], InstanceFindings]>([
    [
      'with the work as a whole is that of the operation that runs',
      { Ready: notRunning, Progressing: starting },
      [refused],
      { Ready: said(no, refused), Progressing: said(yes, refused) },
    ],
    [
      'is not that of one that has ended',
      { Ready: notRunning, Progressing: completed },
      [refused],
      { Ready: said(no, refused), Progressing: completed },
    ],
    [
      'with an object of a database that serves, while nothing runs, is that of its objects',
      { Ready: serving, Progressing: completed },
      [refused],
      { Ready: serving, Progressing: completed, ChildrenApplied: said(no, refused) },
    ],
    [
      'hides nothing that is only there while something is so',
      { Ready: serving, Progressing: starting, ChildrenApplied: no('Contested', '') },
      [refused],
      { Ready: serving, Progressing: said(yes, refused), ChildrenApplied: no('Contested', '') },
    ],
    [
      'with a part is that of the part, also of one that serves',
      { Ready: serving, Progressing: completed, VolumeReady: yes('Bound', '') },
      [full],
      { Ready: serving, Progressing: completed, VolumeReady: said(no, full) },
    ],
    [
      'with a part holds up the operation that runs',
      { Ready: serving, Progressing: starting },
      [full],
      { Ready: serving, Progressing: said(yes, full), VolumeReady: said(no, full) },
    ],
    [
      'before anything was said is all that is said',
      {},
      [full],
      { Ready: said(no, full), VolumeReady: said(no, full) },
    ],
    [
      'beside another is told with it, and what stands for both is the last',
      { Ready: notRunning, Progressing: starting, VolumeReady: yes('Bound', '') },
      [full, noPort],
      {
        ...{ Ready: said(no, noPort), Progressing: said(yes, noPort) },
        ...{ VolumeReady: said(no, full), EndpointReady: said(no, noPort) },
      },
    ],
    [
      'that there is none of changes nothing',
      { Ready: serving, Progressing: starting },
      [],
      { Ready: serving, Progressing: starting },
    ],
  ])('%s', (_, before, problems, after) => {
    expect(told(before, ...problems)).toEqual(conditionsOf(after))
  })
})
