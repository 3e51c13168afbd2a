/** The name of a branch in a tree, as a link to the branch's pages. */
import { Link } from '@tanstack/react-router'
import type { Schemas } from '../api/client.ts'
import { titleOf, withMark } from '../lib/branches.ts'
import { Icon } from './icons.tsx'

type Props = {
  branch: Schemas['Branch']
  /** The short id of the branch; undefined if its title is unique. */
  shortId: string | undefined
  indent: number
}

export function BranchLink({ branch, shortId, indent }: Props) {
  const { id, database_id: database, name, display_name: label } = branch
  return (
    <div className="name-cell" style={{ paddingInlineStart: indent }}>
      <Icon name="branch" size={14} />
      <Link
        to="/databases/$id/branches/$branch"
        params={{ id: database, branch: id }}
        className="name-link"
        aria-label={withMark(titleOf(branch), shortId)}
      >
        {titleOf(branch)}
      </Link>
      {shortId !== undefined && <span className="quiet mono nowrap">{shortId}</span>}
      {label && <span className="quiet clip">{name}</span>}
    </div>
  )
}
