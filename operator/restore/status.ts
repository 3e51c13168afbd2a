/** The status of a restore that waits, runs or has failed. Pure. */
import type { Restore } from '../../crds/index.ts'
import { shortened } from '../../values/text.ts'
import { timestamp } from '../../values/time.ts'
import { no, yes } from '../objects/conditions.ts'
import { withFindings } from '../objects/run-status.ts'
import type { Status } from './actions.ts'

export const notYet = no('NotCompleted', 'the data are not restored')

export const pending = (restore: Restore, reason: string, message: string, now: number): Status =>
  withFindings(
    restore,
    { ...restore.status, phase: 'pending' },
    { Ready: notYet, Progressing: yes(reason, message) },
    now,
  )

export const running = (restore: Restore, reason: string, message: string, now: number): Status =>
  withFindings(
    restore,
    { ...restore.status, phase: 'running' },
    { Ready: notYet, Progressing: yes(reason, message) },
    now,
  )

export const failed = (restore: Restore, reason: string, message: string, now: number): Status =>
  withFindings(
    restore,
    { ...restore.status, phase: 'failed', finishedAt: timestamp(now), error: shortened(message, 1000) },
    { Ready: no(reason, message), Progressing: no(reason, message) },
    now,
  )
