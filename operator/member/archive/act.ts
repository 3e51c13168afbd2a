/** Writes a member's archive Secrets. */
import { applyChild, type ChildExecutor, type ChildPass, identifiedOwner } from '../../children/act.ts'
import type { InstallationKeys } from '../../keys.ts'
import type { ArchiveSource } from '../../objects/instance.ts'
import type { ObservedMember } from '../observed.ts'
import { archiveSecretDraft } from './certificate.ts'
import { archiveSourceDraft } from './source.ts'

export type ArchiveExecutor = ChildExecutor & {
  now: () => number
  /** Returns the current keys, so that the current authority signs a certificate that is issued late in a pass. */
  keys: () => InstallationKeys
}

export async function issueArchiveCertificate(
  executor: ArchiveExecutor,
  pass: ChildPass & { observed: ObservedMember },
): Promise<void> {
  const { authority } = executor.keys()
  if (authority === undefined) return
  const { incarnation, number } = pass.observed
  const member = { owner: identifiedOwner(pass), incarnation, number }
  await applyChild(executor, pass, 'Secret', archiveSecretDraft(member, authority, executor.now))
}

export async function issueArchiveSource(
  executor: ArchiveExecutor,
  pass: ChildPass & { observed: ObservedMember },
  source: ArchiveSource,
): Promise<void> {
  const { authority } = executor.keys()
  if (authority === undefined) return
  const { incarnation, number } = pass.observed
  const member = { owner: identifiedOwner(pass), incarnation, number }
  await applyChild(executor, pass, 'Secret', archiveSourceDraft(member, source, authority, executor.now))
}
