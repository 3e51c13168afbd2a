/** Actions on the objects that a member needs to archive. */
import type { DeleteAction } from '../../children/actions.ts'
import type { ArchiveSource } from '../../objects/instance.ts'

export type IssueArchiveCertificate = { do: 'issue-archive-certificate' }
/** Issues the Secret for reading the member's restore source. */
export type IssueArchiveSource = { do: 'issue-archive-source'; source: ArchiveSource }
export type ArchiveAction = IssueArchiveCertificate | IssueArchiveSource | DeleteAction
