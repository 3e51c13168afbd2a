/** The database or branch that a page shows. */
import { useParams } from '@tanstack/react-router'

export type Target = { id: string; branchId: string | undefined }

/** Returns the target in the URL of the page. */
export function useTarget(): Target {
  const { id = '', branch } = useParams({ strict: false })
  return { id, branchId: branch }
}

/** Returns a key that is unique for each database and each branch. */
export const keyOf = ({ id, branchId }: Target): string => (branchId === undefined ? id : `${id}/${branchId}`)
