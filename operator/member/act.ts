/** Performs one action of a member's plan. */

import { type ChildPass, performChild } from '../children/act.ts'
import type { ReadDesiredRoles } from '../postgres/administrator.ts'
import type { MemberAction } from './actions.ts'
import { type ArchiveExecutor, issueArchiveCertificate, issueArchiveSource } from './archive/act.ts'
import type { ObservedMember } from './observed.ts'
import { checkVolumeStays, repairPod, stopsPod } from './pod/act.ts'
import { type PostgresExecutor, type PostgresPass, performPostgres } from './postgres/act.ts'
import { performStorage, type StorageExecutor, type StorageResult } from './storage/act.ts'

export type MemberExecutor = StorageExecutor & PostgresExecutor & ArchiveExecutor

export type MemberPass = PostgresPass & Pick<ChildPass, 'key'> & { observed: ObservedMember }

/** `readRoles`: returns the roles with the endpoint's credentials; undefined if the credentials are not readable. */
export async function performMember(
  executor: MemberExecutor,
  pass: MemberPass,
  action: MemberAction,
  readRoles: ReadDesiredRoles | undefined,
): Promise<StorageResult> {
  switch (action.do) {
    case 'apply':
    case 'delete':
      if (stopsPod(action)) await checkVolumeStays(executor.cluster, pass.observed)
      await performChild(executor, pass, action)
      return 'done'
    case 'label':
      await performChild(executor, pass, action)
      return 'done'
    case 'repair-pod':
      await repairPod(executor.cluster, action)
      return 'done'
    case 'issue-archive-certificate':
      await issueArchiveCertificate(executor, pass)
      return 'done'
    case 'issue-archive-source':
      await issueArchiveSource(executor, pass, action.source)
      return 'done'
    case 'ensure-roles':
    case 'detach':
    case 'open':
    case 'reload':
      await performPostgres(executor, pass, action, readRoles)
      return 'done'
    default:
      return performStorage(executor, pass, action)
  }
}
