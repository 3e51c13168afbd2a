/** Actions that the plan of a member can request. */
import type { ChildAction } from '../children/actions.ts'
import type { IssueArchiveCertificate, IssueArchiveSource } from './archive/actions.ts'
import type { PodAction } from './pod/actions.ts'
import type { PostgresAction } from './postgres/actions.ts'
import type { StorageAction } from './storage/actions.ts'

export type MemberAction =
  | ChildAction
  | StorageAction
  | PodAction
  | PostgresAction
  | IssueArchiveCertificate
  | IssueArchiveSource
