/** A member of an owner: its labels and its key. `childNames` has the names of its objects. */
import { firstMember, labels } from '../../crds/index.ts'
import type { Owner } from '../objects/ownership.ts'

/** `number`: the member's number within its incarnation; 0 is the first. */
export type Member = { owner: Owner; incarnation: number; number: number }

/** Like `Member`, but with the owner's namespace and id only. */
export type MemberKey = { namespace: string | undefined; id: string; incarnation: number; number: number }

/**
 * The labels that assign an object to a member. The first member's objects have no number label, so they match objects
 * of earlier versions.
 */
export const memberLabels = ({
  incarnation,
  number,
}: Pick<Member, 'incarnation' | 'number'>): Record<string, string> => ({
  [labels.incarnation]: String(incarnation),
  ...(number === firstMember ? {} : { [labels.member]: String(number) }),
})

/** A key that is unique among the members of all owners of a kind. `owner`: the owner's key. */
export const memberKeyOf = (owner: string, number: number): string => `${owner}#${number}`

export const ownerOfMemberKey = (member: string): string => member.slice(0, member.lastIndexOf('#'))
