/** What a page is about: a database, or one of its branches. */
import { useParams } from '@tanstack/react-router'

export type Target = { id: string; branchId: string | undefined }

/** The target of the page's address. */
export function useTarget(): Target {
  const { id = '', branch } = useParams({ strict: false })
  return { id, branchId: branch }
}

/** Keeps what belongs to a database apart from what belongs to each of its branches. */
export const keyOf = ({ id, branchId }: Target): string => (branchId === undefined ? id : `${id}/${branchId}`)
