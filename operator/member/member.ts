/** One member of an owner: its names are in `childNames`, its labels here. */
import { firstMember, labels } from '../../crds/index.ts'
import type { Owner } from '../objects/ownership.ts'

/** `number`: the member's number within its incarnation; 0 is the first. */
export type Member = { owner: Owner; incarnation: number; number: number }

/** The same for ids alone. */
export type MemberKey = { namespace: string | undefined; id: string; incarnation: number; number: number }

/**
 * The labels that assign an object to a member. The first member's objects have no number label, like those from before
 * there were several members.
 */
export const memberLabels = ({
  incarnation,
  number,
}: Pick<Member, 'incarnation' | 'number'>): Record<string, string> => ({
  [labels.incarnation]: String(incarnation),
  ...(number === firstMember ? {} : { [labels.member]: String(number) }),
})

/** Names a member among those of all owners of a kind. `owner`: its key. */
export const memberKeyOf = (owner: string, number: number): string => `${owner}#${number}`

export const ownerOfMemberKey = (member: string): string => member.slice(0, member.lastIndexOf('#'))
